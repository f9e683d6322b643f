// What reaches a host and runs a line in a shell there: ssh, a scheduler's own starter, or the user's command. Pure.
//
//   ssh … HOST LINE                            as any command of the user's
//   blaunch HOST LINE                          LSF
//   qrsh -inherit HOST LINE                    SGE; without -nostdin
//   srun … --nodelist=HOST /bin/sh -c LINE     Slurm, which takes no line: a step of its own for each host
//
// It has to pass on the standard input, by which a relay is told what to do, and the standard output, as lines at least.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// ssh gives up connecting after so many seconds.
inline constexpr int kConnectSeconds = 10;

// Where they stand in a command's words, the host and the line are put; in one without them they follow its words.
inline constexpr std::string_view kHostPlace = "{host}";
inline constexpr std::string_view kLinePlace = "{line}";
// Likewise the GPUs that are asked for there; where that is nobody's to say, such a word is left out.
inline constexpr std::string_view kGpusPlace = "{gpus}";

struct ShellCall {
    std::string target;
    std::string line;
    int gpus = 0;  // 0: nobody's to say
};

// The user's command, or ssh where there is none, with what it needs to be one: ssh asks nothing and notices a dead connection,
// srun begins a step on one host, qrsh stays in its job.
std::vector<std::string> remote_shell(std::vector<std::string> command);

// Why a command cannot be one; nothing for one that may.
std::optional<std::string> why_no_remote_shell(const std::vector<std::string>& command);

// The words for one host. `command` is of remote_shell().
std::vector<std::string> shell_words(const std::vector<std::string>& command, const ShellCall& call);

// Its variables: srun takes many of its options from them, which were meant for the user's own steps.
Environment shell_environment(const std::vector<std::string>& command, Environment environment);

// Without folders, for people.
std::string shell_name(const std::vector<std::string>& command);

// A scheduler's own: a host's agent then finds itself in a step that has the host's GPUs, as variables of the step name them.
bool is_schedulers(const std::vector<std::string>& command);

}  // namespace ddprun::inline launch
