#include "launcher/process/signal_scope.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
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

}  // namespace

std::optional<SignalScope> parse_signal_scope(std::string_view text) {
    if (text == "auto") return SignalScope::automatic;
    if (text == "leader") return SignalScope::leader;
    if (text == "group") return SignalScope::group;
    return std::nullopt;
}

bool SignalMasks::handles(int signal) const {
    return has(caught, signal) || has(blocked, signal) || (fetches && !has(ignored, signal));
}

bool SignalMasks::ignores(int signal) const { return has(ignored, signal); }

std::optional<SignalMasks> parse_signal_masks(std::string_view status, std::string_view wchan,
                                              std::string_view syscall) {
    SignalMasks masks;
    masks.fetches = wchan.find("sigtimedwait") != std::string_view::npos || is_in_sigwait(syscall);
    int found = 0;
    for (const std::string_view line : lines_of(status)) {
        std::uint64_t* mask = line.starts_with("SigBlk:\t")   ? &masks.blocked
                              : line.starts_with("SigIgn:\t") ? &masks.ignored
                              : line.starts_with("SigCgt:\t") ? &masks.caught
                                                              : nullptr;
        if (mask == nullptr) continue;
        const auto found_mask = whole_number<std::uint64_t>(line.substr(line.find('\t') + 1), 0, ~0ULL, 16);
        if (!found_mask) return std::nullopt;
        *mask = *found_mask;
        ++found;
    }
    if (found != 3) return std::nullopt;
    return masks;
}

bool is_shell(const GroupMember& member) {
    return std::find(kShells.begin(), kShells.end(), member.executable) != kShells.end();
}

std::vector<ProcessStat> signal_receivers(const std::vector<GroupMember>& members, pid_t leader, int signal,
                                          const ProcessSet& told) {
    return Descent(members, leader, signal, told).take();
}

}  // namespace ddprun::inline launch
