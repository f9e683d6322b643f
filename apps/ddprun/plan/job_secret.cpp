#include "apps/ddprun/plan/job_secret.hpp"

#include <unistd.h>

#include <cstdlib>

#include "rendezvous/secure/secret.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {
namespace {

constexpr std::size_t kMaxSiteFile = 64 * 1024;

std::optional<Auth> site_auth() {
    const auto text = read_small_file(kSiteFile, kMaxSiteFile);
    if (!text && text.error() == boost::system::errc::no_such_file_or_directory) return std::nullopt;
    if (!text) throw UsageError(std::string(kSiteFile) + ": " + text.error().message());
    return value_or_throw<UsageError>(parse_site_auth(edited_text(*text)));
}

}  // namespace

std::filesystem::path users_secret_file() {
    return own_secret_file(std::getenv("XDG_CONFIG_HOME"), std::getenv("HOME"));
}

std::string take_variable(const char* name) {
    char* value = std::getenv(name);
    if (value == nullptr) return {};
    std::string text = value;
    // The kernel shows these very bytes in /proc/PID/environ.
    ::explicit_bzero(value, text.size());
    ::unsetenv(name);
    return text;
}

Auth agreed_auth(const CommandLine& line) {
    return value_or_throw<UsageError>(agree_on_auth(line.auth, site_auth()));
}

bool has_given_secret(const std::string& variable) {
    std::error_code unknown;
    return !variable.empty() || std::filesystem::exists(users_secret_file(), unknown);
}

std::optional<SecretKey> find_job_key(const CommandLine& line, Auth auth, std::string& variable, bool is_open,
                                      std::string& advice) {
    std::optional<std::string> secret;
    // One node has nobody to prove anything to; what its user names is looked at all the same.
    if (auth != Auth::off && (line.nnodes > 1 || !line.secret_file.empty()))
        secret = value_or_throw<UsageError>(find_secret({line.secret_file, variable, users_secret_file()}));
    wipe(variable);
    if (!secret) {
        const Unprotected state = value_or_throw<UsageError>(without_secret(auth, line.nnodes, is_open));
        if (state == Unprotected::advice) advice = kNoSecretAdvice;
        return std::nullopt;
    }
    const SecretKey key = job_key(*secret, line.run_id);
    wipe(*secret);
    return key;
}

}  // namespace ddprun::inline app
