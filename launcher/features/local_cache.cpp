#include "launcher/features/local_cache.hpp"

#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/output/log_file.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// PyTorch's compilers, Triton's and CUDA's own go by these.
constexpr std::pair<const char*, const char*> kCaches[] = {{"CUDA_CACHE_PATH", "cuda"},
                                                           {"PYTORCH_KERNEL_CACHE_PATH", "kernels"},
                                                           {"TORCHINDUCTOR_CACHE_DIR", "inductor"},
                                                           {"TORCH_EXTENSIONS_DIR", "extensions"},
                                                           {"TRITON_CACHE_DIR", "triton"}};

// linux/magic.h lacks these.
constexpr unsigned kLustre = 0x0bd00bd0;
constexpr unsigned kGpfs = 0x47504653;
constexpr unsigned kBeeGfs = 0x19830326;

constexpr std::array<unsigned, 9> kNetworkFileSystems = {
    NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC, CIFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,
    kLustre,         kGpfs,           kBeeGfs};

// Caches are there, in the home folder, unless a variable says otherwise; Inductor's is among the temporary
// files.
constexpr std::pair<const char*, const char*> kUsualPlaces[] = {
    {"TRITON_CACHE_DIR", ".triton"}, {"CUDA_CACHE_PATH", ".nv"}, {"TORCHINDUCTOR_CACHE_DIR", ""}};

class LocalCacheFeature final : public Feature {
  public:
    void began(AgentControls& agent) override {
        const LaunchOptions& options = agent.options();
        if (!options.features.of<LocalCacheOptions>().asked) {
            if (const auto shared = shared_cache(options.environment))
                agent.say(LogLevel::info,
                          fmt::format("{} is on a network file system, where compilers of all nodes meet; "
                                      "--local-cache keeps their caches on each node",
                                      harmless_line(*shared)));
            return;
        }
        cache_.emplace(temporary_folder(options.environment));
        agent.say(LogLevel::debug, "caches of compilers: " + cache_->folder().string());
        if (!cache_->is_local())
            agent.say(
                LogLevel::warn,
                fmt::format(
                    "--local-cache: {} is on no file system of this machine; TMPDIR may name another folder",
                    cache_->folder().parent_path().string()));
    }
    void round_begins(const RoundReady&, RoundAdditions& added) override {
        if (cache_) added.unless_set.merge(cache_->variables());
    }

  private:
    std::optional<LocalCache> cache_;
};

}  // namespace

LocalCache::LocalCache(const std::string& temporary) {
    std::string path = temporary + "/ddprun_XXXXXX";
    if (::mkdtemp(path.data()) == nullptr)
        fail_errno(errno, "cannot create the folder " + path + " for caches (--local-cache, TMPDIR)");
    folder_ = path;
    claim_ = FolderClaim(folder_);
    is_local_ = claim_on(folder_) != ClaimState::unknown;
    // Some of these programs do not make their folder themselves.
    std::error_code trouble;
    for (const auto& [variable, name] : kCaches) {
        std::filesystem::create_directories(folder_ / kLocalCacheName / name, trouble);
        if (trouble) break;
    }
    if (!trouble) return;
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    fail_errno(trouble.value(), "cannot create folders for caches in " + path + " (--local-cache, TMPDIR)");
}

LocalCache::~LocalCache() {
    std::error_code ignored;  // what a process that cannot be ended still writes there stays
    std::filesystem::remove_all(folder_, ignored);
}

bool is_on_network(const std::filesystem::path& path) {
    struct statfs info {};
    for (std::filesystem::path at = path; !at.empty(); at = at.parent_path()) {
        if (::statfs(at.c_str(), &info) == 0) {
            const auto type = static_cast<unsigned>(info.f_type);
            return std::find(kNetworkFileSystems.begin(), kNetworkFileSystems.end(), type) !=
                   kNetworkFileSystems.end();
        }
        if (at == at.parent_path()) break;
    }
    return false;
}

std::optional<std::string> shared_cache(const Environment& environment,
                                        const std::function<bool(const std::filesystem::path&)>& is_shared) {
    const std::string* home = find_variable(environment, "HOME");
    for (const auto& [variable, usual] : kUsualPlaces) {
        std::filesystem::path place;
        if (const std::string* said = find_variable(environment, variable)) {
            place = *said;
        } else if (home != nullptr && *usual != '\0') {
            place = std::filesystem::path(*home) / usual;
        }
        if (!place.empty() && is_shared(place)) return fmt::format("{} ({})", variable, place.string());
    }
    return std::nullopt;
}

Environment cache_variables(const std::filesystem::path& folder) {
    Environment variables;
    for (const auto& [variable, name] : kCaches)
        variables[variable] = (folder / kLocalCacheName / name).string();
    return variables;
}

std::unique_ptr<Feature> make_local_cache(const FeatureInputs&) {
    return std::make_unique<LocalCacheFeature>();
}

std::optional<LateVariables> late_cache_variables(const LaunchOptions& options) {
    if (!options.features.of<LocalCacheOptions>().asked) return std::nullopt;
    return LateVariables{"a folder made at the start", {.unless_set = cache_variables("late")}};
}

}  // namespace launch
}  // namespace ddprun
