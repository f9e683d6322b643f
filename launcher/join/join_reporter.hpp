// JoinReporter brings the status to the log: on a terminal as one line that is brought up to date, else as
// lines of their own. The file of --log-file has all lines in any case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/join/join_status.hpp"
#include "launcher/output/launcher_log.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun {
inline namespace launch {

class JoinReporter {
  public:
    using TimePoint = JoinStatus::TimePoint;

    JoinReporter(LauncherLog& log, JoinStatus status)
        : log_(log), status_(std::move(status)), updates_(log.can_update()) {}

    // port_taken says that another process has the port at which this agent would host the rendezvous. Any
    // message that comes from there shows that the other process is a coordinator.
    void port_taken(std::uint16_t port) { taken_ = port; }
    void hear(const ControlMessage& message);
    // tell_loss says that the job has lost a node: the workers may take their whole grace to end, and the
    // report comes after that.
    void tell_loss(const Failure& cause);
    // Returns why the agent ends; nothing if it goes on. The agent ends if it would host, but its port is
    // held by a process that is no coordinator; or if it hosts, and stood still when the first round began.
    std::optional<Refused> met(const CoordinatorLoss& loss, bool is_host) const {
        if (is_host && loss.kind == CoordinatorLoss::Kind::given_up)
            return Refused{"this node left the job: " + loss.cause, kExitUnavailable};
        const bool is_stranger = taken_ && loss.kind == CoordinatorLoss::Kind::stranger;
        if (!is_stranger || !status_.speaks(TimePoint::clock::now())) return std::nullopt;
        return Refused{with_holder(loss.cause), kExitSystem};
    }

    // Logs trouble with its cause, as a line that stays: the passing line would cut it.
    void trouble(const std::string& cause) {
        const TimePoint now = TimePoint::clock::now();
        log_.trouble(status_.trouble(status_.speaks(now) ? with_holder(cause) : cause, now));
    }
    // Logs trouble with etcd. `is_host`: this agent has been elected, so it does not wait for etcd.
    void etcd_trouble(const std::string& cause, bool is_host) {
        if (!is_host) return trouble(harmless_line(cause));
        log_.info("this agent's key in etcd cannot be kept: " + harmless_line(cause) +
                  "; until it can, no other node can come or lead the job");
    }
    // Returns when look() has something to do.
    TimePoint next_look() const {
        const TimePoint reminder = status_.reminder_due();
        return updates_ ? std::min(reminder, TimePoint::clock::now() + JoinStatus::kUpdatePeriod) : reminder;
    }
    void look() {
        say(status_.remind(TimePoint::clock::now()));
        update();
    }
    // Ends the passing line: all nodes are there. Nodes that are awaited later begin a new wait.
    void end() {
        ended_ = true;
        if (updates_) log_.update({});
    }

    Refused given_up(const std::string& cause, const std::string& source) const {
        return status_.given_up(with_holder(cause), source);
    }

  private:
    std::string with_holder(const std::string& cause) const {
        return taken_ ? cause + "; " + JoinStatus::port_taken(*taken_, find_port_owner(*taken_)) : cause;
    }
    void say(const std::string& line) { updates_ ? log_.debug(line) : log_.info(line); }
    void update() {
        if (updates_) log_.update(status_.passing(TimePoint::clock::now()));
    }

    LauncherLog& log_;
    JoinStatus status_;
    bool updates_;
    bool ended_ = false;
    std::optional<std::uint16_t> taken_;
};

}  // namespace launch
}  // namespace ddprun
