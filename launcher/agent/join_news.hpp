// JoinNews: brings what JoinStatus has to say to the log: on a terminal as one line that is brought up to date, else as
// lines of their own; the file of --log-file has all of them in any case. On the agent's thread.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/agent/join_status.hpp"
#include "launcher/output/launcher_log.hpp"

namespace ddprun {

class JoinNews {
  public:
    using TimePoint = JoinStatus::TimePoint;

    JoinNews(LauncherLog& log, JoinStatus status)
        : log_(log), status_(std::move(status)), updates_(log.can_update()) {}

    // A cause is too long for a line that is cut, and stays to be read.
    void trouble(const std::string& cause) { log_.info(status_.trouble(cause, TimePoint::clock::now())); }
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

    Refused given_up(const std::string& cause) const { return status_.given_up(cause); }

  private:
    void say(const std::string& line) { updates_ ? log_.debug(line) : log_.info(line); }
    void update() {
        if (updates_) log_.update(status_.passing(TimePoint::clock::now()));
    }

    LauncherLog& log_;
    JoinStatus status_;
    bool updates_;
    bool ended_ = false;
};

}  // namespace ddprun
