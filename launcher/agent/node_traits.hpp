// node_traits() makes what a node tells of itself so that nodes can be compared: the program's file and how
// it is run, variables that change how workers run, the GPUs. The parsers are pure; node_traits() reads the
// files, in parts and once, for jobs of several nodes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "rendezvous/control/job_command.hpp"

namespace ddprun {
inline namespace launch {

// kContentsRead: how much of a large file is read at its beginning, where a linker leaves the build's mark,
// and at its end.
inline constexpr std::size_t kContentsRead = 256 * 1024;
inline constexpr std::size_t kMaxGpusRead = 64;

// Returns at most kMaxNodeTraits: files and GPUs, then the variables by name.
std::vector<NodeTrait> node_traits(const LaunchOptions& options,
                                   const std::filesystem::path& driver = "/proc/driver/nvidia");

// Returns NCCL_*, CUDA_*, PYTHON* and OMP_*, but for those that are different on every node or rank.
std::vector<NodeTrait> traits_of(const Environment& environment);

// Returns the value as it is; of a long one the beginning and a digest of all; a hidden_value() if the name
// says that the value is secret.
std::string variable_trait(std::string_view name, const std::string& value);

// Returns "8c7a91d2e6f00b13, 30216 bytes"; nothing for what is no regular file, or cannot be read.
std::optional<std::string> contents_of(const std::filesystem::path& file);

}  // namespace launch
}  // namespace ddprun
