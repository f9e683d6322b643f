#include "apps/ddprun/plan/job_secret.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kMaxSiteFile = 64 * 1024;

SitePolicy site_policy() {
    const auto text = read_small_file(kSiteFile, kMaxSiteFile);
    if (!text && text.error() == boost::system::errc::no_such_file_or_directory) return {};
    if (!text) throw UsageError(std::string(kSiteFile) + ": " + text.error().message());
    return value_or_throw<UsageError>(parse_site_policy(edited_text(*text)));
}

bool has_users_secret() {
    std::error_code unknown;
    return std::filesystem::exists(users_secret_file(), unknown);
}

[[noreturn]] void refuse_users_secret() {
    throw UsageError(
        fmt::format("{} says key = job: {} serves for all jobs and is not taken; give the job one of its own "
                    "(--secret-file, DDPRUN_SECRET), or start it by --hosts, which makes one",
                    kSiteFile, users_secret_file().string()));
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

SitePolicy agreed_policy(const Said& said) {
    SitePolicy policy = site_policy();
    policy.auth = value_or_throw<UsageError>(agree_on_auth(said.auth, policy));
    if (policy.seals_store && said.store_access == StoreAccess::direct)
        throw UsageError(
            fmt::format("--store direct: {} says store = door; leave the option out", kSiteFile));
    return policy;
}

bool has_given_secret(const SitePolicy& agreed, const std::string& variable) {
    return !variable.empty() || (!agreed.keys_per_job && has_users_secret());
}

std::optional<SecretKey> find_job_key(const JobPlan& job, const SitePolicy& agreed, std::string& variable,
                                      bool is_open, std::string& advice) {
    std::optional<std::string> secret;
    std::error_code unknown;
    if (agreed.keys_per_job && std::filesystem::equivalent(job.secret_file, users_secret_file(), unknown))
        refuse_users_secret();
    const auto own_file = agreed.keys_per_job ? std::filesystem::path() : users_secret_file();
    // One node has nobody to prove anything to; what its user names is looked at all the same.
    if (agreed.auth != Auth::off && (job.nnodes > 1 || !job.secret_file.empty()))
        secret = value_or_throw<UsageError>(find_secret({job.secret_file, variable, own_file}));
    wipe(variable);
    if (!secret) {
        if (job.nnodes > 1 && agreed.auth != Auth::off && agreed.keys_per_job && has_users_secret())
            refuse_users_secret();
        if (job.nnodes > 1 && agreed.seals_store)
            throw UsageError(fmt::format(
                "{} says store = door: agents need a secret for that (--make-secret, and no --auth off)",
                kSiteFile));
        const Unprotected state = value_or_throw<UsageError>(without_secret(agreed, job.nnodes, is_open));
        if (state == Unprotected::advice) advice = kNoSecretAdvice;
        return std::nullopt;
    }
    const SecretKey key = job_key(*secret, job.run_id);
    wipe(*secret);
    return key;
}

}  // namespace app
}  // namespace ddprun
