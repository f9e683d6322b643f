// JoinNews: brings what JoinStatus has to say to the log: on a terminal as one line that is brought up to date, else as
// lines of their own; the file of --log-file has all of them in any case. On the agent's thread.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/agent/join_status.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/output/launcher_log.hpp"
#include "rendezvous/control/coordinator_client.hpp"

namespace ddprun::inline launch {

class JoinNews {
  public:
    using TimePoint = JoinStatus::TimePoint;

    JoinNews(LauncherLog& log, JoinStatus status)
        : log_(log), status_(std::move(status)), updates_(log.can_update()) {}

    // This agent would host the rendezvous, but another process has the port; it is that of a coordinator when
    // something is heard from there.
    void port_taken(std::uint16_t port) { taken_ = port; }
    void heard() { taken_.reset(); }
    // What an agent ends with that would host when its port turns out to be a stranger's, after some trying, or that hosts
    // and stood still as the first round began.
    std::optional<Refused> met(const CoordinatorLoss& loss, bool is_host) const {
        if (is_host && loss.kind == CoordinatorLoss::Kind::given_up)
            return Refused{"this node left the job: " + loss.cause, kExitUnavailable};
        const bool is_stranger = taken_ && loss.kind == CoordinatorLoss::Kind::stranger;
        if (!is_stranger || !status_.speaks(TimePoint::clock::now())) return std::nullopt;
        return Refused{with_holder(loss.cause), kExitSystem};
    }

    // A cause is too long for a line that is cut, and stays to be read.
    void trouble(const std::string& cause) {
        const TimePoint now = TimePoint::clock::now();
        log_.trouble(status_.trouble(status_.speaks(now) ? with_holder(cause) : cause, now));
    }
    // `is_host`: nobody waits for etcd then.
    void etcd_trouble(const std::string& cause, bool is_host) {
        if (!is_host) return trouble(harmless_line(cause));
        log_.info("this agent's key in etcd cannot be kept: " + harmless_line(cause) +
                  "; until it can, no other node can come or lead the job");
    }
    void waiting(const Waiting& status) {
        const TimePoint now = TimePoint::clock::now();
        if (std::exchange(ended_, false)) status_.begin_again(now);
        say(status_.waiting(status, now));
        update();
    }
    void parked(const Parked& status) {
        log_.info(status_.parked(status));
        if (updates_) log_.update({});
    }
    // When look() has something to do.
    TimePoint next_look() const {
        const TimePoint reminder = status_.reminder_due();
        return updates_ ? std::min(reminder, TimePoint::clock::now() + JoinStatus::kUpdatePeriod) : reminder;
    }
    void look() {
        say(status_.remind(TimePoint::clock::now()));
        update();
    }
    // Nobody is awaited any longer; who is awaited later is so from then on.
    void end() {
        ended_ = true;
        if (updates_) log_.update({});
    }

    Refused given_up(const std::string& cause) const { return status_.given_up(with_holder(cause)); }

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

}  // namespace ddprun::inline launch
