#include "launcher/local_cache.hpp"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

// What PyTorch's compilers, Triton's and CUDA's own go by.
constexpr std::pair<const char*, const char*> kCaches[] = {{"CUDA_CACHE_PATH", "cuda"},
                                                           {"PYTORCH_KERNEL_CACHE_PATH", "kernels"},
                                                           {"TORCHINDUCTOR_CACHE_DIR", "inductor"},
                                                           {"TORCH_EXTENSIONS_DIR", "extensions"},
                                                           {"TRITON_CACHE_DIR", "triton"}};

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

Environment LocalCache::variables() const {
    Environment variables;
    for (const auto& [variable, name] : kCaches)
        variables[variable] = (folder_ / kLocalCacheName / name).string();
    return variables;
}

}  // namespace ddprun
