// LimitTimer: wakes when a TimeLimit has something to say, and passes it on.
//
// Used on the executor's thread; the events come from the executor, or the warning from inside round_begins().
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/times/time_limit.hpp"
#include "launcher/times/wall_timer.hpp"
#include "rendezvous/system/alive.hpp"

namespace ddprun::inline launch {

struct LimitEvents {
    // The job's time is over, for this reason.
    std::function<void(const std::string& why)> on_end;
    // Every worker of the job is to be sent this signal; `line` tells the user.
    std::function<void(int signal, const std::string& line)> on_warning;
};

class LimitTimer {
  public:
    // Throws system_error where the system has no timer for us.
    LimitTimer(const boost::asio::any_io_executor& executor, TimeLimit limit, LimitEvents events);

    // From now on the events come.
    void watch() { arm(); }

    // Workers run.
    void round_begins();

  private:
    void arm();
    void look();

    TimeLimit limit_;
    LimitEvents events_;
    boost::asio::steady_timer steady_;
    std::optional<WallTimer> wall_;  // where a time of the wall clock matters
    Alive alive_;
};

}  // namespace ddprun::inline launch
