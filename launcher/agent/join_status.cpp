#include "launcher/agent/join_status.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/launch_options.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/control/control_text.hpp"

namespace ddprun::inline launch {
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
}

std::string JoinStatus::trouble(const std::string& cause, TimePoint now) {
    last_line_ = "waiting for node 0: " + cause;
    if (!speaks(now) || causes_.size() == kMaxCauses || !causes_.insert(cause).second) return {};
    return fmt::format("{}; {}", last_line_, time_text(now - start_));
}

std::string JoinStatus::waiting(const Waiting& status, TimePoint now) {
    std::string line = harmless_line(to_text(status) + present_text(status), kMaxStatusShown);
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
    return fmt::format("{}: {}", time_text(now - start_), last_line_);
}

std::string JoinStatus::remind(TimePoint now) {
    if (now < reminder_due_) return {};
    const auto age = std::chrono::duration_cast<Duration>(now - start_);
    reminder_due_ = start_ + (age / kReminderPeriod + 1) * kReminderPeriod;
    if (last_line_.empty()) return {};
    return fmt::format("{}; {}{}{}", last_line_, time_text(age / kReminderPeriod * kReminderPeriod),
                       advice_.empty() ? "" : "; ", advice_);
}

std::string JoinStatus::time_text(TimePoint::duration age) const {
    // A place that listens and says nothing is given time to answer beyond the timeout.
    const auto shown = std::min<TimePoint::duration>(age, timeout_);
    return fmt::format("{} of at most {} (--join-timeout)", duration_text(shown), duration_text(timeout_));
}

std::string JoinStatus::advice_to(const LaunchOptions& options) {
    if (options.node_rank != 0) return {};
    if (options.is_started)
        return fmt::format(
            "each other node has to reach node 0 at {}; --master-addr gives it another address",
            harmless_line(options.master.host));
    return "each other node needs a --node-rank of its own and --master-addr with an address that leads here";
}

std::string JoinStatus::refused(const PeerRefused& other) {
    return fmt::format("refused an agent on {} (pid {}): {}", harmless_line(other.host), other.pid,
                       harmless_line(other.reason, kMaxRefusalShown));
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

Refused JoinStatus::given_up(const std::string& cause) const {
    return {
        fmt::format("node 0 was not reached within {} s: {}; --join-timeout SECONDS sets how long to wait",
                    std::chrono::duration_cast<std::chrono::seconds>(timeout_).count(), cause),
        kExitUnavailable};
}

void JoinReporter::hear(const ControlMessage& message) {
    taken_.reset();
    std::visit([this](const auto& one) { hear_one(one); }, message);
}

void JoinReporter::tell_loss(const Failure& cause) {
    if (cause.kind == Failure::Kind::node_lost) log_.warn(harmless_line(loss_text(cause)));
}

void JoinReporter::hear_one(const Waiting& status) {
    const TimePoint now = TimePoint::clock::now();
    if (std::exchange(ended_, false)) status_.begin_again(now);
    say(status_.waiting(status, now));
    update();
}

void JoinReporter::hear_one(const Parked& status) {
    log_.info(status_.parked(status));
    if (updates_) log_.update({});
}

void JoinReporter::hear_one(const PeerRefused& other) { log_.info(JoinStatus::refused(other)); }

void JoinReporter::hear_one(const NodesDiffer& differ) {
    for (const std::string& difference : differ.differences) log_.warn(harmless_line(difference));
}

void JoinReporter::hear_one(const Stop& stop) { tell_loss(stop.cause); }

void JoinReporter::hear_one(const Remark& remark) { log_.info(harmless_line(remark.text)); }

}  // namespace ddprun::inline launch
