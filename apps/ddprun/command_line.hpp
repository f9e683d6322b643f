// The command line of ddprun: words in, a CommandLine out. Pure but for PET_* variables, which CLI11 reads.
//
// torchrun's options, with dashes or underscores. Everything from the program's name on is the program's and
// is passed on byte for byte; a "--" before it is dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/endpoint.hpp"

namespace ddprun {

// Bad input: what() is one line that names the flag and the value. main prints it and ends with kExitUsage.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct CommandLine {
    int nnodes = 1;
    int node_rank = 0;
    std::string nproc_per_node = "1";  // a number ≥ 1, or auto, gpu, cpu: resolved against the machine later
    std::optional<std::string> master_addr;
    std::optional<std::uint16_t> master_port;
    std::string run_id = "none";
    std::string role = "default";
    int join_timeout_s = 900;
    int shutdown_timeout_s = 30;
    bool module = false;
    bool no_python = false;
    bool python = false;
    bool share_gpus = false;
    std::string gpu_bind = "auto";
    std::vector<std::string> program;  // name and arguments; empty only with `show`
    std::optional<std::string> show;   // --help or --version: print this and end with 0
};

// The largest values taken; beyond them a number is a typing error.
inline constexpr int kMaxNodes = 100'000;
inline constexpr int kMaxTimeoutSeconds = 10'000'000;

// `words` without the launcher's own name. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& words);

// The entry of `candidates` nearest to `word`, if it is near enough to be what was meant.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun
