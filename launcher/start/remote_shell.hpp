// A remote shell reaches a host and runs a line in a shell there: ssh, a scheduler's own starter, or the
// user's command. Pure, but for the questions about this process's own file.
//
//   ssh … HOST LINE                            as any command of the user's
//   blaunch HOST LINE                          LSF
//   qrsh -inherit HOST LINE                    SGE; without -nostdin
//   srun … --nodelist=HOST /bin/sh -c LINE     Slurm, which takes no line: a step of its own for each host
//
// It has to pass on the standard input, by which a relay is told what to do, and the standard output, as
// lines at least.
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

// Returns the version and the linker's id of the program; letters, digits, '.' and '-'. Another one for every
// other build.
std::string build_identity();

// Returns the file that this process runs, as it may be named on other hosts; empty where it is not there any
// more.
std::string own_program();

// Returns a name by which this process can start itself again, removed or not.
std::string own_executable();

// These read the file itself, whatever has its name now. No bytes where the system refuses.
std::uint64_t own_program_size();
std::string own_program_bytes();

// --- how a relay comes to a host: the line for its shell, and what that answers first
//
//   ddprun-relay have      by the relay itself: it takes frames from now on
//   ddprun-relay need      by the shell: neither the file nor the ddprun on PATH is of this build; it takes
//                          the bytes of the file, and the relay that it then is says `have`
//
// Whatever else a host's shell says before is passed over.

inline constexpr std::string_view kRelayFlag = "--relay";
inline constexpr std::string_view kHaveLine = "ddprun-relay have";
// A relay ends so that is of another build than it was asked for. An older ddprun does not know the flag, and
// ends with 2.
inline constexpr int kExitOtherBuild = 89;
// A shell may say so much before one of the lines above.
inline constexpr std::size_t kMaxNoise = 64 * 1024;

struct BootstrapRequest {
    std::string file;      // of the launcher, where it may be on the host, too
    std::string identity;  // of its build; letters, digits, '.' and '-'
    std::uint64_t size = 0;
    bool ships = true;
    // Besides the user there and root: one who may have the file and its folder.
    std::vector<std::uint32_t> owners = {};
};

// One word for `COMMAND HOST LINE`: any shell runs it, which may be one of csh's kind.
std::string bootstrap_line(const BootstrapRequest& request);

// The text as one word of a shell.
std::string shell_quoted(std::string_view text);

// Reads the lines before the frames.
class Handshake {
  public:
    enum class Word { none, have, need, too_much };

    // The next word in what has come.
    Word push(std::string_view bytes);

    // Returns what came behind `have`.
    std::string take_rest() { return std::move(held_); }

    // The last line that was none of them, for an error.
    const std::string& noise() const { return noise_; }

  private:
    std::string held_;
    std::string noise_;
    std::size_t passed_ = 0;
};

// --- the remote shell

// ssh gives up connecting after so many seconds.
inline constexpr int kConnectSeconds = 10;

// The host and the line are put where these stand in a command's words; in one without them they follow its
// words.
inline constexpr std::string_view kHostPlace = "{host}";
inline constexpr std::string_view kLinePlace = "{line}";
// The number of GPUs to ask for is put where this stands; such a word is left out where nobody says how many.
inline constexpr std::string_view kGpusPlace = "{gpus}";

struct ShellCall {
    std::string target;
    std::string line;
    int gpus = 0;  // 0: nobody says
};

// The user's command, or ssh where there is none, with what it needs to be one: ssh asks nothing and notices
// a dead connection, srun begins a step on one host, qrsh stays in its job.
std::vector<std::string> remote_shell(std::vector<std::string> command);

// Why a command cannot be one; nothing for one that may.
std::optional<std::string> why_no_remote_shell(const std::vector<std::string>& command);

// The words for one host. `command` is of remote_shell().
std::vector<std::string> shell_words(const std::vector<std::string>& command, const ShellCall& call);

// Its variables: srun takes many of its options from them, which were meant for the user's own steps.
Environment shell_environment(const std::vector<std::string>& command, Environment environment);

// Returns the command's name for people, without folders.
std::string shell_name(const std::vector<std::string>& command);

// A scheduler's own: a host's agent then finds itself in a step that has the host's GPUs, as variables of the
// step name them.
bool is_schedulers(const std::vector<std::string>& command);

// --- what it means that a remote shell has ended, and whether to try again

// Connections to one host that are tried before it counts as one that cannot be started.
inline constexpr int kMaxConnects = 3;
// The host may then take so long until its relay answers, a login with a slow profile included.
inline constexpr std::chrono::seconds kHostAnswerTimeout{60};
// The pause before the second connection, doubled each time; the jitter makes it up to twice as long.
inline constexpr std::chrono::milliseconds kFirstConnectPause{400};

// RshEnd says how a remote shell ended, and what it said last on stderr.
struct RshEnd {
    ExitStatus status;
    std::string last_line;
};

// "gpu07: ssh exit 255: Connection refused", with a remedy where the last line is one that is known.
// `command` is what was called, with or without folders.
std::string rsh_failure_text(std::string_view target, std::string_view command, const RshEnd& end);

// A connection that may come about the next time: ssh's own failure, but not who may come in or whose host it
// is.
bool is_worth_another(const RshEnd& end);

// The pause goes before the connection after `failed` ones; `chance` is from 0 to 1.
std::chrono::milliseconds pause_before_next(int failed, double chance);

}  // namespace launch
}  // namespace ddprun
