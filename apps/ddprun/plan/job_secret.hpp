// The secret of the job as ddprun's user gives it: where it is looked for, what its lack means, and how a new
// one is made.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/ddprun/options/command_line.hpp"
#include "rendezvous/secure/secret.hpp"

namespace ddprun {
inline namespace app {

// Takes the variable out of this process's environment, and wipes what it held: /proc shows that to whoever
// has our uid, and whatever is started inherits it. Only while no other thread runs.
std::string take_variable(const char* name);

// Combines what the user and the site say. Throws UsageError where the line asks for less.
SitePolicy agreed_policy(const CommandLine& line);

// Says whether the user has given a secret for jobs like this, by DDPRUN_SECRET, which held `variable`, or a
// file of his own.
bool has_given_secret(const SitePolicy& agreed, const std::string& variable);

// The key by which the agents of the job know each other; nothing: there is none. `variable` is what
// DDPRUN_SECRET held; wiped. If there is none, `advice` is what to do if the agent `is_open`: it may host
// where other machines reach it. Throws UsageError.
std::optional<SecretKey> find_job_key(const CommandLine& line, const SitePolicy& agreed,
                                      std::string& variable, bool is_open, std::string& advice);

// The file of the user's own secret, be it there or not.
std::filesystem::path users_secret_file();

}  // namespace app
}  // namespace ddprun
