// The rules of SignalScope: which processes of a worker's process group are sent a signal (pure), and the
// sending, which reads /proc at the moment of the signal (blocking, short).
//
// A program that handles a signal has children that must not hear of it: when the workers of a DataLoader die
// before their parent has seen the flag that its handler set, the parent fails and saves nothing. A program
// that does not handle it, as a rule a wrapper, leaves it to those below. So a signal goes to the worker and
// on to the children of everyone who does not handle it; below somebody who does it is that one's business.
//
// Shells are special. Every shell that waits for a child catches SIGINT, only to learn what the child makes
// of it: so to them it passes as from the keyboard, to all. And what a shell does on a trapped signal waits
// until its foreground child has ended: so that one gets the signal as well, unlike a background child
// (`prog & wait`), which the trap can pass it on to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/process/process_table.hpp"
#include "launcher/process/signal_scope.hpp"

namespace ddprun {
inline namespace launch {

// SignalMasks says what a process does with signals, one bit for each: bit 0 is signal 1.
struct SignalMasks {
    // The main thread blocks these; while it sleeps in sigwait, without those it waits for.
    std::uint64_t blocked = 0;
    bool fetches = false;  // it sleeps in sigwait, for signals that nobody else can know
    std::uint64_t ignored = 0;
    std::uint64_t caught = 0;

    // It has a handler, or fetches the signal itself (sigwait, signalfd).
    bool handles(int signal) const;
    bool ignores(int signal) const;
};

// Reads them out of /proc/<pid>/status, wchan and syscall; nothing if the first does not have all three
// masks. The other two may be empty: some kernels hide them, and each tells what the other may not. Since
// Linux 6.12 wchan is 0 for who has just fallen asleep while others want the processor; syscall does not know
// the programs of another word size.
std::optional<SignalMasks> parse_signal_masks(std::string_view status, std::string_view wchan,
                                              std::string_view syscall);

struct GroupMember {
    ProcessStat process;
    SignalMasks masks;
    std::string executable;  // the name of its file, without folders; empty if it is not known
};

// True if the children of `member` are not its business alone.
bool is_shell(const GroupMember& member);

// A ProcessSet names processes by pid and start time.
using ProcessSet = std::set<std::pair<pid_t, std::uint64_t>>;

// Returns the processes to send `signal` to, out of the living members of the process group that `leader`
// made; it need not be among them any more. Each once, parents first. What has lost its parent counts as a
// child of the leader. Those that were `told` before are at work on it, and need those below them: both are
// left in peace.
std::vector<ProcessStat> signal_receivers(const std::vector<GroupMember>& members, pid_t leader, int signal,
                                          const ProcessSet& told);

// SignalTarget is what the caller, who reaps it, knows of a worker.
struct SignalTarget {
    pid_t leader = 0;           // also the number of the process group
    bool leader_ended = false;  // it was reaped, too, so its number names the group only
};

// ToldProcesses notes who was sent the last signal that asked for something, besides the leader.
struct ToldProcesses {
    bool all = false;
    ProcessSet some;
    bool leader_handles_term = false;  // when it was sent
};

// OwnProcesses is a look at /proc that serves until it is forgotten: what happens in the same turn to many
// workers needs one.
class OwnProcesses {
  public:
    explicit OwnProcesses(std::filesystem::path proc = "/proc") : proc_(std::move(proc)) {}

    const std::filesystem::path& proc() const { return proc_; }
    // Looks if there is none; nothing where /proc does not show this process.
    const std::optional<std::vector<ProcessStat>>& table();
    // True if a process of the group runs, whose members must be this process or below it. Linux reports the
    // end of a child, never that of a group. Zombies do not count, since not every init of a container reaps
    // its orphans.
    bool has_group(pid_t process_group);
    void forget() { look_.reset(); }

  private:
    std::filesystem::path proc_;
    std::optional<std::optional<std::vector<ProcessStat>>> look_;
};

// Sends the signal, and keeps `told` up to date. SIGKILL, SIGSTOP and SIGCONT ask for nothing and go to all.
// Where /proc does not tell who does what, all get the others as well.
void deliver_signal(const SignalTarget& target, int signal, SignalScope scope, ToldProcesses& told,
                    OwnProcesses& processes);

// Returns the signals that would end this process and that nothing here expects: nobody but a user, a batch
// system or a limit of the kernel's sends them. Those that whoever started the launcher wants ignored are not
// among them.
std::vector<int> unexpected_signals();
// Says that one of them has come, and which options give it a meaning.
std::string unexpected_text(int signal);

// Sends the signal to just this process, be it our child or not. Returns 0, or EPERM where it is another
// user's.
int signal_process(const ProcessStat& process, int signal);

// Interrupts say what a SIGINT is to a job that it ends. Programs that pass a Ctrl-C on (uv, npm, make,
// docker) send it to processes which the terminal has sent it already, so two that come close together are
// one; a later one is the user's impatience. Pure. Agents feed it, and so does the starter of many agents,
// which each get what it passes on.
enum class Interrupt { first, repeated, impatient };

class Interrupts {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // The time runs from the first one on, not from the last: a user who presses the keys again and again is
    // heard.
    static constexpr std::chrono::milliseconds kSameInterrupt{1000};

    Interrupt take(TimePoint now) {
        if (first_) return now - *first_ < kSameInterrupt ? Interrupt::repeated : Interrupt::impatient;
        first_ = now;
        return Interrupt::first;
    }

    // All is done that follows from the first one. It may take long where many workers are told, and what has
    // come meanwhile is taken only now.
    void first_answered(TimePoint now) { first_ = now; }

  private:
    std::optional<TimePoint> first_;
};

}  // namespace launch
}  // namespace ddprun
