// remote_shell and shell_words make the command that reaches a host and runs a line in a shell there: ssh, a
// scheduler's own starter, or the user's command. Pure, but for the questions about this process's own file.
//
//   ssh … HOST LINE                            as any command of the user's
//   blaunch HOST LINE                          LSF
//   qrsh -inherit HOST LINE                    SGE; without -nostdin
//   srun … --nodelist=HOST /bin/sh -c LINE     Slurm, which takes no line: a step of its own for each host
//
// A remote shell has to pass on the standard input, by which a relay is told what to do, and the standard
// output, as lines at least.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// --- which build of ddprun this process runs, and where its file is

// Returns the version and the linker's id of the program; letters, digits, '.' and '-'. Differs for every
// other build.
std::string build_identity();

// Returns the path of the file that this process runs, for use on other hosts; empty where the file has been
// removed.
std::string own_program();

// Returns a name by which this process can start its own program again, even if the file was removed.
std::string own_executable();

// Reads the file that this process runs, even if its name now leads to another file. Nothing where the system
// refuses.
std::uint64_t own_program_size();
std::string own_program_bytes();

// --- bootstrap_line: how a relay comes to a host, by a line that the host's shell runs, and that answers
// first
//
//   ddprun-relay have      by the relay itself: it takes frames from now on
//   ddprun-relay need      by the shell: neither the file nor the ddprun on PATH is of this build; it takes
//                          the bytes of the file, and the relay that it then is says `have`
//
// All else that a host's shell says before is passed over.

inline constexpr std::string_view kRelayFlag = "--relay";
inline constexpr std::string_view kHaveLine = "ddprun-relay have";
// kExitOtherBuild: the exit code of a relay of another build than it was asked for. An older ddprun does not
// know the flag, and ends with 2.
inline constexpr int kExitOtherBuild = 89;
// kMaxNoise: bytes that a shell may say before one of the lines above.
inline constexpr std::size_t kMaxNoise = 64 * 1024;

struct BootstrapRequest {
    std::string file;      // of the launcher, which may be on the host, too
    std::string identity;  // of its build; letters, digits, '.' and '-'
    std::uint64_t size = 0;
    bool ships = true;
    // owners: users that may have the file and its folder, besides the user there and root.
    std::vector<std::uint32_t> owners = {};
};

// Makes the LINE of `COMMAND HOST LINE`, one word that any shell runs, even one of csh's kind.
std::string bootstrap_line(const BootstrapRequest& request);

// Returns the text as one word of a shell.
std::string shell_quoted(std::string_view text);

// Handshake reads the lines before the frames.
class Handshake {
  public:
    enum class Word { none, have, need, too_much };

    // Returns the next word in what has come.
    Word push(std::string_view bytes);

    // Returns what came behind `have`.
    std::string take_rest() { return std::move(held_); }

    // Returns the last line that was no word of the handshake, for an error.
    const std::string& noise() const { return noise_; }

  private:
    std::string held_;
    std::string noise_;
    std::size_t passed_ = 0;
};

// --- the remote shell

// kConnectSeconds: after how many seconds ssh gives up connecting.
inline constexpr int kConnectSeconds = 10;

// kHostPlace and kLinePlace: where the host and the line are put in a command's words. Without the places,
// both follow the command's words.
inline constexpr std::string_view kHostPlace = "{host}";
inline constexpr std::string_view kLinePlace = "{line}";
// kGpusPlace: where the number of GPUs to ask for is put. The word is left out where the number is not known.
inline constexpr std::string_view kGpusPlace = "{gpus}";

struct ShellCall {
    std::string target;
    std::string line;
    int gpus = 0;  // 0: not known
};

// Returns the user's command, or ssh if that is empty, with the options that it needs as a remote shell. ssh
// asks nothing and notices a dead connection, srun begins a step on one host, qrsh stays in its job.
std::vector<std::string> remote_shell(std::vector<std::string> command);

// Says why a command cannot be a remote shell; nothing for one that may.
std::optional<std::string> why_no_remote_shell(const std::vector<std::string>& command);

// Returns the words for one host. `command` is of remote_shell().
std::vector<std::string> shell_words(const std::vector<std::string>& command, const ShellCall& call);

// Returns the variables of a remote shell. srun does not get the variables that it reads as options, which
// were meant for the user's own steps.
Environment shell_environment(const std::vector<std::string>& command, Environment environment);

// Returns the command's name for people, without folders.
std::string shell_name(const std::vector<std::string>& command);

// Says whether the shell is a scheduler's own. A host's agent then finds itself in a step that has the host's
// GPUs, as variables of the step name them.
bool is_schedulers(const std::vector<std::string>& command);

// --- what it means that a remote shell has ended, and whether to try again

// kMaxConnects: connections that are tried before a host counts as one that cannot be started.
inline constexpr int kMaxConnects = 3;
// kHostAnswerTimeout: how long the relay may then take to answer, a login with a slow profile included.
inline constexpr std::chrono::seconds kHostAnswerTimeout{60};
// kFirstConnectPause: the pause before the second connection, doubled each time. Jitter makes it up to twice
// as long.
inline constexpr std::chrono::milliseconds kFirstConnectPause{400};

// RshEnd says how a remote shell ended, and what it said last on stderr.
struct RshEnd {
    ExitStatus status;
    std::string last_line;
};

// Makes "gpu07: ssh exit 255: Connection refused", with a remedy where the last line is a known one.
// `command` is what was called, with or without folders.
std::string rsh_failure_text(std::string_view target, std::string_view command, const RshEnd& end);

// Says whether a connection may come about the next time: after ssh's own failure, but not after one about
// keys, passwords or an unknown host.
bool is_worth_another(const RshEnd& end);

// Returns the pause before the connection after `failed` ones; `chance` is from 0 to 1.
std::chrono::milliseconds pause_before_next(int failed, double chance);

}  // namespace launch
}  // namespace ddprun
