// The job's secret: these functions say what it has to look like, where it comes from, which keys are made of
// it, and whether the agents of a job must prove that they have it.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

// The job's key is what both ends of a connection prove to each other that they have. It is made of a secret,
// which is the user's and may serve for many jobs, and of the run id: agents of different jobs do not take
// each other for their own.

// 22 characters hold 128 bits if they were made at random; nobody types what is longer than the most.
inline constexpr std::size_t kMinSecretText = 22;
inline constexpr std::size_t kMaxSecretText = 1024;

// Takes the secret out of what a file, a line or a variable holds: blanks and line ends around it do not
// count. A text says what is wrong with it, without quoting it.
std::variant<std::string, std::string_view> parse_secret(std::string_view text);

// Makes the job's key: BLAKE2b-256 of "ddprun psk 1" and the run id, keyed with the secret that
// make_secret_text() has made. Any other one may be guessed: then it is keyed with what Argon2id makes of it,
// the run id as salt, which takes 64 MiB and a tenth of a second. Throws Error without that memory.
SecretKey job_key(std::string_view secret, std::string_view run_id);

// Makes the key of the workers' mesh in one round of the job: BLAKE2b-256, keyed with the job's, of "ddprun
// mesh 1", the job's id and the round (four bytes, the lowest first). Every agent makes it, so nobody has to
// send it.
SecretKey mesh_key(const SecretKey& job, std::string_view job_id, int round);

// Makes a secret that nobody has guessed: "ddprun-", 64 characters and a checksum of 8. Throws as
// SecretKey::fresh() does.
std::string make_secret_text();

// --- where it comes from
//
// These read and write files; blocking, short, but for stdin, which is waited for kStdinTimeout at most.
// ddprun calls them before anything else is started.

struct SecretSources {
    std::string file;      // --secret-file or DDPRUN_SECRET_FILE; "-": one line of stdin; empty: not given
    std::string variable;  // what DDPRUN_SECRET holds; empty: not set
    std::filesystem::path own_file;  // own_secret_file(); need not be there
};

inline constexpr std::chrono::seconds kStdinTimeout{60};

// Finds the first that is given, in that order; nothing: none is. A text: one that is given cannot be taken,
// whose, why, and what to do; no other one is taken instead.
std::variant<std::optional<std::string>, std::string> find_secret(const SecretSources& sources);

// $XDG_CONFIG_HOME/ddprun/secret, else ~/.config/ddprun/secret; empty where there is no home.
std::filesystem::path own_secret_file(const char* xdg_config_home, const char* home);

// Puts a new secret there, which nobody else can read, nor the folder, if that is new. A text says why not;
// one that is there is kept.
std::optional<std::string> make_secret_file(const std::filesystem::path& path);

// --- whether it is asked for

enum class Auth {
    automatic,  // where a secret is known
    required,   // or else no job of several nodes
    off,        // also where one is known
};

// SitePolicy is what the site's file asks of everybody's jobs. Each may only make them stricter.
struct SitePolicy {
    bool requires_secret = false;     // as Auth::required
    bool seals_store = false;         // workers of several nodes use it through their agents
    bool keys_per_job = false;        // a secret that serves for all jobs of a user is none
    bool health_on_loopback = false;  // nobody on another machine may ask how an agent is
    std::vector<std::string> shells;  // the commands that may reach hosts; empty: any
    Auth auth = Auth::automatic;      // what holds, once agree_on_auth() has said so
};

// Reads the file: one `NAME = VALUE` a line, # begins a comment. A text says what is wrong, with the line's
// number.
inline constexpr const char* kSiteFile = "/etc/ddprun.conf";
std::variant<SitePolicy, std::string> parse_site_policy(std::string_view text);

// The site's word may only make the user's stricter. A text: they contradict each other.
std::variant<Auth, std::string> agree_on_auth(Auth user, const SitePolicy& site);

// Says what it means for this node to have no secret. `is_open`: it may host the job where other machines
// reach it. A text: the job cannot be started so.
enum class Unprotected { nothing, advice };
std::variant<Unprotected, std::string> without_secret(Auth auth, int nnodes, bool is_open);

// Tells whether the workers' way to the store is to be sealed where nobody says how they reach it. That hides
// node 0's address from them, so it has to be wanted: `is_given`: the user has given a secret himself, and no
// starter one of its own.
bool wants_sealed_store(const SitePolicy& agreed, bool is_given);

// The line of node 0 where several nodes meet and anybody could.
extern const std::string kNoSecretAdvice;

}  // namespace job
}  // namespace ddprun
