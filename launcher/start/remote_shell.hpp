// A remote shell reaches a host and runs a line in a shell there: ssh, a scheduler's own starter, or the user's command. Pure.
//
//   ssh … HOST LINE                            as any command of the user's
//   blaunch HOST LINE                          LSF
//   qrsh -inherit HOST LINE                    SGE; without -nostdin
//   srun … --nodelist=HOST /bin/sh -c LINE     Slurm, which takes no line: a step of its own for each host
//
// It has to pass on the standard input, by which a relay is told what to do, and the standard output, as lines at least.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// ssh gives up connecting after so many seconds.
inline constexpr int kConnectSeconds = 10;

// The host and the line are put where these stand in a command's words; in one without them they follow its words.
inline constexpr std::string_view kHostPlace = "{host}";
inline constexpr std::string_view kLinePlace = "{line}";
// The number of GPUs to ask for is put where this stands; such a word is left out where nobody says how many.
inline constexpr std::string_view kGpusPlace = "{gpus}";

struct ShellCall {
    std::string target;
    std::string line;
    int gpus = 0;  // 0: nobody says
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

// Returns the command's name for people, without folders.
std::string shell_name(const std::vector<std::string>& command);

// A scheduler's own: a host's agent then finds itself in a step that has the host's GPUs, as variables of the step name them.
bool is_schedulers(const std::vector<std::string>& command);

// --- what it means that a remote shell has ended, and whether to try again

// Connections to one host that are tried before it counts as one that cannot be started.
inline constexpr int kMaxConnects = 3;
// How long the host may then take until its relay answers, a login with a slow profile included.
inline constexpr std::chrono::seconds kHostAnswerTimeout{60};
// The pause before the second connection, doubled each time; the jitter makes it up to twice as long.
inline constexpr std::chrono::milliseconds kFirstConnectPause{400};

// How a remote shell ended, and what it said last on stderr.
struct RshEnd {
    ExitStatus status;
    std::string last_line;
};

// "gpu07: ssh exit 255: Connection refused", with a remedy where the last line is one that is known. `command` is what was
// called, with or without folders.
std::string rsh_failure_text(std::string_view target, std::string_view command, const RshEnd& end);

// A connection that may come about the next time: ssh's own failure, but not who may come in or whose host it is.
bool is_worth_another(const RshEnd& end);

// The pause goes before the connection after `failed` ones; `chance` is from 0 to 1.
std::chrono::milliseconds pause_before_next(int failed, double chance);

}  // namespace ddprun::inline launch
