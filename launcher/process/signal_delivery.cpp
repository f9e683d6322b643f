#include "launcher/process/signal_delivery.hpp"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>

#include "launcher/process/descriptors.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::array<std::string_view, 9> kShells = {"bash", "sh",  "dash", "zsh",    "ksh",
                                                     "mksh", "ash", "yash", "busybox"};

bool has(std::uint64_t mask, int signal) {
    return signal >= 1 && signal <= 64 && (mask >> static_cast<unsigned>(signal - 1) & 1) != 0;
}

bool leaves_to_children(const GroupMember& member, int signal) {
    return !member.masks.handles(signal) || (signal == SIGINT && is_shell(member));
}

// Shells start background children with SIGINT and SIGQUIT ignored. Programs seldom touch the latter.
bool is_in_foreground(const GroupMember& child) { return !child.masks.ignores(SIGQUIT); }

class Descent {
  public:
    Descent(const std::vector<GroupMember>& members, pid_t leader, int signal, const ProcessSet& told)
        : members_(members), leader_(leader), signal_(signal), told_(told), visited_(members.size()) {}

    std::vector<ProcessStat> take() {
        const auto leader = find(leader_);
        if (leader != members_.end()) visit(*leader);
        if (leader == members_.end() || leaves_to_children(*leader, signal_)) {
            for (const GroupMember& member : members_) {
                if (find(member.process.parent) == members_.end()) visit(member);
            }
        }
        return std::move(receivers_);
    }

  private:
    std::vector<GroupMember>::const_iterator find(pid_t pid) const {
        return std::find_if(members_.begin(), members_.end(),
                            [pid](const GroupMember& member) { return member.process.pid == pid; });
    }

    void visit(const GroupMember& member) {
        auto seen = visited_.begin() + (&member - members_.data());
        if (*seen || told_.contains({member.process.pid, member.process.start_time})) return;
        *seen = true;
        receivers_.push_back(member.process);
        if (leaves_to_children(member, signal_)) {
            visit_children(member.process.pid, true);
        } else if (is_shell(member)) {
            visit_children(member.process.pid, false);
        }
    }

    void visit_children(pid_t parent, bool background_too) {
        for (const GroupMember& child : members_) {
            const bool concerned = background_too || is_in_foreground(child);
            if (child.process.parent == parent && concerned) visit(child);
        }
    }

    const std::vector<GroupMember>& members_;
    const pid_t leader_;
    const int signal_;
    const ProcessSet& told_;
    std::vector<bool> visited_;
    std::vector<ProcessStat> receivers_;
};

// The first word is the number of the call in which a sleeping process is; of another it is not a number.
bool is_in_sigwait(std::string_view syscall) {
    const auto number = whole_number<long>(syscall.substr(0, syscall.find(' ')), 0, LONG_MAX);
    return number == SYS_rt_sigtimedwait;
}

constexpr std::size_t kMaxCallText = 256;

// The text is empty where the kernel does not show it.
std::string call_text(const std::filesystem::path& file) {
    const auto text = read_small_file(file, kMaxCallText);
    return text.has_value() ? *text : std::string();
}

std::optional<GroupMember> look_at(ProcessStat process, const std::filesystem::path& proc) {
    const auto folder = proc / std::to_string(process.pid);
    const auto status = read_small_file(folder / "status", kMaxStatusFile);
    if (!status.has_value()) return std::nullopt;
    const auto masks =
        parse_signal_masks(*status, call_text(folder / "wchan"), call_text(folder / "syscall"));
    if (!masks) return std::nullopt;
    std::error_code unknown;
    const auto file = std::filesystem::read_symlink(folder / "exe", unknown);
    return GroupMember{std::move(process), *masks, file.filename().string()};
}

// A process that cannot be looked at has ended since.
std::vector<GroupMember> members_of(pid_t group, OwnProcesses& processes) {
    std::vector<GroupMember> members;
    const auto& table = processes.table();
    if (!table) return members;
    for (const ProcessStat& process : *table) {
        if (process.process_group != group || process.ended()) continue;
        if (auto member = look_at(process, processes.proc())) members.push_back(std::move(*member));
    }
    return members;
}

void tell_group(const SignalTarget& target, int signal, ToldProcesses& told) {
    ::kill(-target.leader, signal);
    told.all = true;
}

// This is the usual case, which needs no look at all processes.
bool is_for_leader_alone(const SignalTarget& target, const std::optional<GroupMember>& leader, int signal,
                         SignalScope scope) {
    if (target.leader_ended) return false;
    return scope == SignalScope::leader || (leader && leader->masks.handles(signal) && !is_shell(*leader));
}

void signal_again(const SignalTarget& target, const std::optional<GroupMember>& leader, int signal,
                  ToldProcesses& told, OwnProcesses& processes) {
    const bool is_on_its_way = leader && told.leader_handles_term && !leader->masks.handles(SIGTERM);
    if (!is_on_its_way) return tell_group(target, signal, told);
    for (const GroupMember& member : members_of(target.leader, processes)) {
        if (member.process.pid != target.leader) signal_process(member.process, signal);
    }
    told.all = true;
}

}  // namespace

bool SignalMasks::handles(int signal) const {
    return has(caught, signal) || has(blocked, signal) || (fetches && !has(ignored, signal));
}

bool SignalMasks::ignores(int signal) const { return has(ignored, signal); }

std::optional<SignalMasks> parse_signal_masks(std::string_view status, std::string_view wchan,
                                              std::string_view syscall) {
    const auto blocked = signals_in_status(status, "SigBlk");
    const auto ignored = signals_in_status(status, "SigIgn");
    const auto caught = signals_in_status(status, "SigCgt");
    if (!blocked || !ignored || !caught) return std::nullopt;
    const bool fetches = wchan.find("sigtimedwait") != std::string_view::npos || is_in_sigwait(syscall);
    return SignalMasks{*blocked, fetches, *ignored, *caught};
}

bool is_shell(const GroupMember& member) {
    return std::find(kShells.begin(), kShells.end(), member.executable) != kShells.end();
}

std::vector<ProcessStat> signal_receivers(const std::vector<GroupMember>& members, pid_t leader, int signal,
                                          const ProcessSet& told) {
    return Descent(members, leader, signal, told).take();
}

const std::optional<std::vector<ProcessStat>>& OwnProcesses::table() {
    if (!look_) look_ = read_own_processes(proc_);
    return *look_;
}

bool OwnProcesses::has_group(pid_t process_group) {
    if (::kill(-process_group, 0) < 0 && errno == ESRCH) return false;
    // Without /proc a zombie cannot be told from a living process.
    return !table() || std::any_of(table()->begin(), table()->end(), [&](const ProcessStat& process) {
        return process.process_group == process_group && !process.ended();
    });
}

void deliver_signal(const SignalTarget& target, int signal, SignalScope scope, ToldProcesses& told,
                    OwnProcesses& processes) {
    if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT) {
        ::kill(-target.leader, signal);
        return;
    }
    const auto leader =
        target.leader_ended ? std::nullopt : look_at({.pid = target.leader}, processes.proc());
    if (scope == SignalScope::again) return signal_again(target, leader, signal, told, processes);
    if (scope != SignalScope::leftovers)
        told = {.all = false, .some = {}, .leader_handles_term = leader && leader->masks.handles(SIGTERM)};
    // A worker that has ended has left nothing, as a rule.
    if (told.all || ::kill(-target.leader, 0) != 0) return;
    if (scope == SignalScope::group) return tell_group(target, signal, told);
    if (is_for_leader_alone(target, leader, signal, scope)) {
        ::kill(target.leader, signal);
        return;
    }
    const auto members = members_of(target.leader, processes);
    if (members.empty()) return tell_group(target, signal, told);
    const auto receivers = signal_receivers(members, target.leader, signal, told.some);
    // A signal to the group also reaches processes that were forked since the look.
    const bool at_once = receivers.size() == members.size() && told.some.empty();
    if (at_once) ::kill(-target.leader, signal);
    for (const ProcessStat& receiver : receivers) {
        told.some.emplace(receiver.pid, receiver.start_time);
        if (!at_once) signal_process(receiver, signal);
    }
}

std::vector<int> unexpected_signals() {
    std::vector<int> signals = {SIGTERM, SIGINT,    SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,  SIGALRM,
                                SIGPROF, SIGVTALRM, SIGXCPU, SIGIO,   SIGPWR,  SIGSTKFLT};
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) signals.push_back(signal);
    std::erase_if(signals, [](int signal) {
        struct sigaction action = {};
        return ::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL;
    });
    return signals;
}

std::string unexpected_text(int signal) {
    return fmt::format(
        "{} came, which has no meaning here (--forward passes it on to the workers, --signals-to-handle lets it end the job as "
        "itself)",
        signal_text(signal));
}

// A child of ours keeps its number until we reap it. The number of any other process may be given to a
// stranger between the look and the signal: the descriptor holds on to one process, and a second look tells
// whether it is the right one.
int signal_process(const ProcessStat& process, int signal) {
    const auto result_of = [](long call) { return call != 0 && errno == EPERM ? EPERM : 0; };
    if (process.parent == ::getpid()) return result_of(::kill(process.pid, signal));
    const OwnedDescriptor held = open_process(process.pid);
    if (!held && errno == ESRCH) return 0;
    const auto again = read_process_stat(process.pid);
    if (!again || again->start_time != process.start_time) return 0;
    if (held) return result_of(::syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0));
    return result_of(
        ::kill(process.pid, signal));  // The kernel has nothing better; the look was a moment ago.
}

}  // namespace launch
}  // namespace ddprun
