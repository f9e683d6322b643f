// find_job_key() makes the key of the job from the secret that ddprun's user gives. Here is where the secret
// is looked for, what its lack means, and how a new one is made.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/ddprun/plan/job_plan.hpp"
#include "rendezvous/secure/secret.hpp"

namespace ddprun {
inline namespace app {

// Takes the variable out of this process's environment, and wipes what it held: /proc shows that to every
// process of our uid, and what is started inherits it. Called only while no other thread runs.
std::string take_variable(const char* name);

// Combines what the user and the site say. Throws UsageError where the user asks for less.
SitePolicy agreed_policy(const Said& said);

// Returns whether the user has given a secret for jobs like this, by DDPRUN_SECRET, which held `variable`, or
// a file of the user's own.
bool has_given_secret(const SitePolicy& agreed, const std::string& variable);

// Returns the key by which the agents of the job know each other; nothing: there is none. `variable` is what
// DDPRUN_SECRET held; wiped. If there is no key, `advice` is what to do if the agent `is_open`: it may host
// where other machines reach it. Throws UsageError.
std::optional<SecretKey> find_job_key(const JobPlan& job, const SitePolicy& agreed, std::string& variable,
                                      bool is_open, std::string& advice);

// Returns the file of the user's own secret, whether it exists or not.
std::filesystem::path users_secret_file();

}  // namespace app
}  // namespace ddprun
