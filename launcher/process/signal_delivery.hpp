// signal_receivers has the rules of SignalScope: which processes of a worker's process group are sent a
// signal (pure). deliver_signal sends it, and reads /proc at that moment (blocking, short).
//
// A program that handles a signal has children that must not hear of it. If a DataLoader's workers die before
// their parent has seen the flag that its handler set, the parent fails and saves nothing. A program that
// does not handle the signal, as a rule a wrapper, leaves it to the processes below. A signal therefore goes
// to the worker, and on to the children of every process that does not handle it. Below a process that
// handles it, that process decides.
//
// Shells are special. A shell that waits for a child catches SIGINT, only to learn what the child makes of
// it. Hence SIGINT passes shells as from the keyboard, to all. What a shell does on a trapped signal waits
// until its foreground child has ended. The foreground child therefore gets the signal, too, unlike a
// background child (`prog & wait`), to which the trap can pass it on.
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
    // blocked: the signals that the main thread blocks; while it sleeps in sigwait, without those it waits
    // for.
    std::uint64_t blocked = 0;
    bool fetches = false;  // it sleeps in sigwait, for signals that cannot be known from outside
    std::uint64_t ignored = 0;
    std::uint64_t caught = 0;

    // Returns true for a handler, and where the process fetches the signal itself (sigwait, signalfd).
    bool handles(int signal) const;
    bool ignores(int signal) const;
};

// Reads the masks out of /proc/<pid>/status, wchan and syscall; nothing if the status lacks one of the three
// masks. The other two texts may be empty: some kernels hide them, and each tells what the other may not.
// Since Linux 6.12 wchan is 0 for a process that has just fallen asleep while others want the processor. The
// file syscall does not know the programs of another word size.
std::optional<SignalMasks> parse_signal_masks(std::string_view status, std::string_view wchan,
                                              std::string_view syscall);

struct GroupMember {
    ProcessStat process;
    SignalMasks masks;
    std::string executable;  // its file's name, without folders; empty: not known
};

// Returns true if `member` is not alone responsible for its children.
bool is_shell(const GroupMember& member);

// A ProcessSet names processes by pid and start time.
using ProcessSet = std::set<std::pair<pid_t, std::uint64_t>>;

// Returns the processes to send `signal` to, out of the living members of the process group that `leader`
// made and may have left. Each once, parents first. A process that has lost its parent counts as a child of
// the leader. Processes that were `told` before are at work on it and need the processes below them: neither
// gets the signal.
std::vector<ProcessStat> signal_receivers(const std::vector<GroupMember>& members, pid_t leader, int signal,
                                          const ProcessSet& told);

// SignalTarget is what the caller, which reaps the worker, knows of it.
struct SignalTarget {
    pid_t leader = 0;           // also the number of the process group
    bool leader_ended = false;  // it was reaped, too, so its number names the group only
};

// ToldProcesses notes which processes besides the leader got the last signal that asked for something.
struct ToldProcesses {
    bool all = false;
    ProcessSet some;
    bool leader_handles_term = false;  // when the signal was sent
};

// OwnProcesses is a look at /proc that serves until it is forgotten: one look is enough for what happens to
// many workers in the same turn.
class OwnProcesses {
  public:
    explicit OwnProcesses(std::filesystem::path proc = "/proc") : proc_(std::move(proc)) {}

    const std::filesystem::path& proc() const { return proc_; }
    // Looks at /proc unless a look is kept; nothing where /proc does not show this process.
    const std::optional<std::vector<ProcessStat>>& table();
    // Returns true if a process of the group runs. All members must be this process or below it. Linux
    // reports the end of a child, never that of a group. Zombies do not count, since not every init of a
    // container reaps its orphans.
    bool has_group(pid_t process_group);
    void forget() { look_.reset(); }

  private:
    std::filesystem::path proc_;
    std::optional<std::optional<std::vector<ProcessStat>>> look_;
};

// Sends the signal, and keeps `told` up to date. SIGKILL, SIGSTOP and SIGCONT ask for nothing and go to all.
// Where /proc does not show what processes handle, the other signals go to all, too.
void deliver_signal(const SignalTarget& target, int signal, SignalScope scope, ToldProcesses& told,
                    OwnProcesses& processes);

// Returns the signals that would end this process and that nothing here expects: only a user, a batch system
// or a limit of the kernel's sends them. Signals that were ignored when the launcher was started are not
// among them.
std::vector<int> unexpected_signals();
// Says that a signal of these has come, and which options give it a meaning.
std::string unexpected_text(int signal);

// Sends the signal to just this process, whether it is our child or not. Returns 0, or EPERM where it is
// another user's.
int signal_process(const ProcessStat& process, int signal);

// Interrupt says what a SIGINT is to a job that it ends. Programs that pass a Ctrl-C on (uv, npm, make,
// docker) send it to processes to which the terminal has sent it already. Hence two that come close together
// are one; a later one is the user's impatience. Pure. Used by agents, and by the starter of many agents,
// each of which gets what the starter passes on.
enum class Interrupt { first, repeated, impatient };

class Interrupts {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // kSameInterrupt runs from the first SIGINT on, not from the last: a user who presses the keys again and
    // again is heard.
    static constexpr std::chrono::milliseconds kSameInterrupt{1000};

    Interrupt take(TimePoint now) {
        if (first_) return now - *first_ < kSameInterrupt ? Interrupt::repeated : Interrupt::impatient;
        first_ = now;
        return Interrupt::first;
    }

    // Restarts the time, once everything is done that follows from the first SIGINT. Where many workers are
    // told, that may take long, and a SIGINT that has come meanwhile is taken only now.
    void first_answered(TimePoint now) { first_ = now; }

  private:
    std::optional<TimePoint> first_;
};

}  // namespace launch
}  // namespace ddprun
