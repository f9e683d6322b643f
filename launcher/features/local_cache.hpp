// A LocalCache is a folder of this machine for what compilers of the workers keep (--local-cache), made for
// one job and removed with its owner. Caches in a home folder on a network file system are written by all
// nodes at once, and compilers that meet there fail or wait.
//
//   ddprun_XXXXXX/local_cache/{triton,inductor,cuda,extensions,kernels}
//
// The folder's name, mode (0700) and claim are those of the folders that launcher/folder_claim.hpp removes
// where a launcher was killed.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/feature.hpp"
#include "launcher/folder_claim.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

struct LocalCacheOptions {
    bool asked = false;  // --local-cache
};

// Returns the variables by which compilers find a LocalCache in this folder.
Environment cache_variables(const std::filesystem::path& folder);

class LocalCache {
  public:
    // Makes the cache among the temporary files. Throws a system_error that names the flag.
    explicit LocalCache(const std::string& temporary);
    LocalCache(const LocalCache&) = delete;
    LocalCache& operator=(const LocalCache&) = delete;
    ~LocalCache();

    Environment variables() const { return cache_variables(folder_); }
    // Returns false where the temporary files are on no file system of this machine, as far as that can be
    // told.
    bool is_local() const { return is_local_; }
    const std::filesystem::path& folder() const { return folder_; }

  private:
    std::filesystem::path folder_;
    FolderClaim claim_;
    bool is_local_ = true;
};

// Returns true if a path, or the first folder above it that is there, is on a file system of several machines
// (NFS, Lustre, …).
bool is_on_network(const std::filesystem::path& path);

// Returns a cache of Triton's, Inductor's or CUDA's compilers that all nodes would share, as
// "TRITON_CACHE_DIR (/nfs/ann/.triton)"; nothing where there is none.
std::optional<std::string> shared_cache(
    const Environment& environment,
    const std::function<bool(const std::filesystem::path&)>& is_shared = is_on_network);

// Makes the feature that gives workers the variables where --local-cache is set. On several nodes without it,
// a Python user is told of caches that all nodes would share. Returns nullptr where neither can be.
std::unique_ptr<Feature> make_local_cache(const FeatureInputs& inputs);

// Returns what make_local_cache() gives to workers; nothing without --local-cache.
std::optional<LateVariables> late_cache_variables(const LaunchOptions& options);

}  // namespace launch
}  // namespace ddprun
