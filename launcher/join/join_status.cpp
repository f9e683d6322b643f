#include "launcher/join/join_status.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// A refusal may hold two commands.
constexpr std::size_t kMaxRefusalShown = 1200;
// Many numbers, and a few names of hosts.
constexpr std::size_t kMaxStatusShown = 3000;

std::string duration_text(JoinStatus::TimePoint::duration duration) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
    const bool in_minutes = seconds >= 120 && seconds % 60 == 0;
    return in_minutes ? fmt::format("{} min", seconds / 60) : fmt::format("{} s", seconds);
}

// A terminal shows so much of the names behind "ddprun: waiting for ", and the times.
constexpr std::size_t kAwaitedShown = 40;

// "node 1 (gpu07)", "nodes 1-3,5", "gpu[01-03,05] and 7 more".
std::string awaited_text(const Waiting& status) {
    const int all = std::max(status.expected - status.joined, status.hosts_missing);
    if (all <= 1) return all == 1 ? missing_text(status) : "others";
    const std::vector<std::string>& hosts = status.missing_hosts;
    const std::vector<int>& numbers = status.missing;
    const bool by_name = !hosts.empty() && hosts.size() >= numbers.size() &&
                         std::find(hosts.begin(), hosts.end(), "") == hosts.end();
    for (auto listed = static_cast<int>(by_name ? hosts.size() : numbers.size()); listed > 0; --listed) {
        std::string text = by_name
                               ? compressed_hosts({hosts.begin(), hosts.begin() + listed})
                               : (listed == 1 ? "node " : "nodes ") +
                                     number_set_text(spans_of({numbers.begin(), numbers.begin() + listed}));
        if (text.size() <= kAwaitedShown)
            return all > listed ? fmt::format("{} and {} more", text, all - listed) : text;
    }
    return fmt::format("{} nodes", all);
}

}  // namespace

JoinStatus::JoinStatus(TimePoint start, Duration first_delay, Duration timeout, std::string advice)
    : start_(start),
      speaks_from_(start + first_delay),
      reminder_due_(start + kReminderPeriod),
      timeout_(timeout),
      advice_(std::move(advice)) {}

void JoinStatus::begin_again(TimePoint now) {
    start_ = now;
    reminder_due_ = now + kReminderPeriod;
    last_line_.clear();
    refused_.clear();
    joined_ = 0;
}

std::string JoinStatus::trouble(const std::string& cause, TimePoint now) {
    last_line_ = "waiting for node 0: " + cause;
    awaited_ = "node 0";
    count_ = cause;
    present_.clear();
    if (!speaks(now) || causes_.size() == kMaxCauses || !causes_.insert(cause).second) return {};
    return fmt::format("{}; {}", last_line_, time_text(now - start_));
}

std::string JoinStatus::waiting(const Waiting& status, TimePoint now) {
    const std::string counts = to_text(status);
    std::string line = harmless_line(counts + present_text(status), kMaxStatusShown);
    // Who was refused has perhaps come again, in the right way.
    if (status.joined > std::exchange(joined_, status.joined)) refused_.clear();
    awaited_ = harmless_line(awaited_text(status));
    count_ = harmless_line(counts.substr(0, counts.find(", missing")));
    present_ = harmless_line(present_text(status), kMaxStatusShown);
    if (line == last_line_) return {};
    last_line_ = std::move(line);
    return fmt::format("{}; {}", last_line_, time_text(now - start_));
}

std::string JoinStatus::parked(const Parked& status) {
    last_line_.clear();
    return harmless_line(status.reason, kMaxStatusShown);
}

std::string JoinStatus::passing(TimePoint now) const {
    if (last_line_.empty() || !speaks(now)) return {};
    const auto shown = std::min<TimePoint::duration>(now - start_, timeout_);
    return fmt::format("waiting for {}, {} of {}: {}{}{}{}", awaited_, duration_text(shown),
                       duration_text(timeout_), count_, refused_.empty() ? "" : "; ", refused_, present_);
}

std::string JoinStatus::remind(TimePoint now) {
    if (now < reminder_due_) return {};
    const auto age = std::chrono::duration_cast<Duration>(now - start_);
    reminder_due_ = start_ + (age / kReminderPeriod + 1) * kReminderPeriod;
    if (last_line_.empty()) return {};
    const std::string& more = refused_.empty() ? advice_ : refused_;
    return fmt::format("{}; {}{}{}", last_line_, time_text(age / kReminderPeriod * kReminderPeriod),
                       more.empty() ? "" : "; ", more);
}

std::string JoinStatus::time_text(TimePoint::duration age) const {
    // A place that listens and says nothing is given time to answer beyond the timeout.
    const auto shown = std::min<TimePoint::duration>(age, timeout_);
    return fmt::format("{} of at most {} (--join-timeout)", duration_text(shown), duration_text(timeout_));
}

std::string JoinStatus::refused(const PeerRefused& other) {
    refused_ = fmt::format("refused an agent on {} (pid {}): {}", harmless_line(other.host), other.pid,
                           harmless_line(other.reason, kMaxRefusalShown));
    return refused_;
}

std::string JoinStatus::port_taken(std::uint16_t port, const std::optional<PortOwner>& holder) {
    if (!holder)
        return fmt::format(
            "this agent does not host the rendezvous, since port {} was taken, by a process that has ended "
            "or cannot "
            "be seen; start again, or give all nodes another port in --rdzv-endpoint, or an --rdzv-id and no "
            "port",
            port);
    return fmt::format(
        "this agent does not host the rendezvous, since port {} is held by pid {} ({}); end that process, or "
        "give all "
        "nodes another port in --rdzv-endpoint, or an --rdzv-id and no port",
        port, holder->pid, harmless_line(holder->command));
}

Refused JoinStatus::not_elected(const std::string& why) {
    return {harmless_line(why, kMaxRefusalShown), kExitUnavailable};
}

Refused JoinStatus::host_failed(const std::string& what) {
    return {"the rendezvous that this node hosts has failed, and the job ends: " +
                harmless_line(what, kMaxRefusalShown),
            kExitSystem};
}

Refused JoinStatus::given_up(const std::string& cause, const std::string& source) const {
    return {
        fmt::format("node 0 was not reached within {} s: {}{}; --join-timeout SECONDS sets how long to wait",
                    std::chrono::duration_cast<std::chrono::seconds>(timeout_).count(), cause,
                    source.empty() ? "" : fmt::format(" (from {})", source)),
        kExitUnavailable};
}

}  // namespace launch
}  // namespace ddprun
