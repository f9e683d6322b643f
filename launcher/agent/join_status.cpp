#include "launcher/agent/join_status.hpp"

#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/coordinator/control_text.hpp"

namespace ddprun {
namespace {

// A refusal may hold two commands.
constexpr std::size_t kMaxRefusalShown = 1200;

std::string duration_text(JoinStatus::Duration duration) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
    if (seconds < 120 || seconds % 60 != 0) return std::to_string(seconds) + " s";
    return std::to_string(seconds / 60) + " min";
}

}  // namespace

JoinStatus::JoinStatus(TimePoint start, Duration first_delay, Duration limit, std::string advice)
    : start_(start),
      speaks_from_(start + first_delay),
      reminder_due_(start + kReminderPeriod),
      limit_(limit),
      advice_(std::move(advice)) {}

std::string JoinStatus::trouble(const std::string& cause, TimePoint now) {
    last_line_ = "waiting for node 0: " + cause;
    if (now < speaks_from_ || causes_.size() == kMaxCauses || !causes_.insert(cause).second) return {};
    return last_line_;
}

std::string JoinStatus::waiting(const Waiting& status) {
    std::string line = to_text(status);
    return line == last_line_ ? std::string() : last_line_ = std::move(line);
}

std::string JoinStatus::remind(TimePoint now) {
    if (now < reminder_due_) return {};
    const auto age = std::chrono::duration_cast<Duration>(now - start_);
    reminder_due_ = start_ + (age / kReminderPeriod + 1) * kReminderPeriod;
    if (last_line_.empty()) return {};
    return last_line_ + "; this for " + duration_text(age / kReminderPeriod * kReminderPeriod) +
           " of at most " + duration_text(limit_) + " (--rdzv-conf join_timeout)" +
           (advice_.empty() ? "" : "; " + advice_);
}

std::string JoinStatus::advice_to(int node_rank) {
    if (node_rank != 0) return {};
    return "each other node needs a --node-rank of its own and --master-addr with an address that leads here";
}

std::string JoinStatus::refused(const PeerRefused& other) {
    return "refused an agent on " + harmless_line(other.host) + " (pid " + std::to_string(other.pid) +
           "): " + harmless_line(other.reason, kMaxRefusalShown);
}

Refused JoinStatus::given_up(const std::string& cause) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit_).count();
    return {"node 0 was not reached within " + std::to_string(seconds) + " s: " + cause +
                "; --rdzv-conf join_timeout=SECONDS sets how long to wait",
            kExitUnavailable};
}

}  // namespace ddprun
