// find_secret() finds the job's secret, and job_key() makes a key of it. The file also says what a secret
// must look like, and whether agents must prove that they have it.
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

// kMinSecretText holds 128 bits if made at random; no user types more than kMaxSecretText.
inline constexpr std::size_t kMinSecretText = 22;
inline constexpr std::size_t kMaxSecretText = 1024;

// Takes the secret out of what a file, a line or a variable holds; blanks and line ends around it do not
// count. A string_view says what is wrong with the secret, without quoting it.
std::variant<std::string, std::string_view> parse_secret(std::string_view text);

// Makes the job's key, which both ends of a connection prove to each other that they have. The secret is the
// user's, and may serve for many jobs; the run id keeps agents of different jobs apart.
//
// The key is BLAKE2b-256 of "ddprun psk 1" and the run id, keyed with a secret of make_secret_text(). Any
// other one may be guessed: what Argon2id makes of it is taken then, the run id as salt, which takes 64 MiB
// and a tenth of a second. Throws Error without that memory.
SecretKey job_key(std::string_view secret, std::string_view run_id);

// Makes the key of the workers' mesh in one round of the job. Every agent makes it, so it is never sent:
// BLAKE2b-256, keyed with the job's, of "ddprun mesh 1", the job's id and the round (four bytes, the lowest
// first).
SecretKey mesh_key(const SecretKey& job, std::string_view job_id, int round);

// Makes a new random secret: "ddprun-", 64 characters and a checksum of 8. Throws as SecretKey::fresh() does.
std::string make_secret_text();

// --- where the secret comes from
//
// The functions below read and write files; blocking, short, but on stdin they wait up to kStdinTimeout.
// ddprun calls them before it starts anything else.

struct SecretSources {
    std::string file;      // --secret-file or DDPRUN_SECRET_FILE; "-": one line of stdin; empty: not given
    std::string variable;  // what DDPRUN_SECRET holds; empty: not set
    std::filesystem::path own_file;  // own_secret_file(); need not be there
};

inline constexpr std::chrono::seconds kStdinTimeout{60};

// Finds the first that is given, in that order; an empty optional: none is. A string says of a secret that
// cannot be taken where it is from, why, and what to do; no other one is taken instead.
std::variant<std::optional<std::string>, std::string> find_secret(const SecretSources& sources);

// Returns $XDG_CONFIG_HOME/ddprun/secret, else ~/.config/ddprun/secret; empty where no home folder is known.
std::filesystem::path own_secret_file(const char* xdg_config_home, const char* home);

// Writes a new secret into the file, for its owner alone, as is its folder, if that is new. A string says why
// not; a file that is there is kept.
std::optional<std::string> make_secret_file(const std::filesystem::path& path);

// --- whether the secret is asked for

enum class Auth {
    automatic,  // asked for where a secret is known
    required,   // a job of several nodes does not start without one
    off,        // not asked for, even where one is known
};

// SitePolicy is what the site's file asks of all users' jobs. Each member only makes them stricter.
struct SitePolicy {
    bool requires_secret = false;     // as Auth::required
    bool seals_store = false;         // workers of several nodes use the store through their agents
    bool keys_per_job = false;        // a secret that serves for all jobs of a user does not count
    bool health_on_loopback = false;  // no other machine may ask how an agent is
    std::vector<std::string> shells;  // the commands that may be used to reach hosts; empty: any
    Auth auth = Auth::automatic;      // what holds, set from agree_on_auth()
};

// kSiteFile has one `NAME = VALUE` a line; # begins a comment. A string of parse_site_policy() says what is
// wrong, with the line's number.
inline constexpr const char* kSiteFile = "/etc/ddprun.conf";
std::variant<SitePolicy, std::string> parse_site_policy(std::string_view text);

// Returns the user's choice, or the site's where that is stricter. A string: the two contradict each other.
std::variant<Auth, std::string> agree_on_auth(Auth user, const SitePolicy& site);

// Unprotected says what follows where this node has no secret. `is_open`: it may host the job where other
// machines reach it. A string: the job cannot be started so, which names the site's file if that asks for it.
enum class Unprotected { nothing, advice };
std::variant<Unprotected, std::string> without_secret(const SitePolicy& agreed, int nnodes, bool is_open);

// Says whether the workers' way to the store is sealed where no option says how they reach it. A sealed way
// hides node 0's address from them, so it has to be wanted. `is_given`: the user has given a secret, and no
// starter one of its own.
bool wants_sealed_store(const SitePolicy& agreed, bool is_given);

// kNoSecretAdvice is node 0's line where several nodes meet and any process could.
extern const std::string kNoSecretAdvice;

}  // namespace job
}  // namespace ddprun
