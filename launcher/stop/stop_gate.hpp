// StopGate asks the features before a step of a stop, and holds the step for those that want it.
//
// RoundWorkers owns the gate and uses it on the agent's thread. Where nothing holds a step, the gate starts
// no timer and posts nothing: the caller goes on in the same call. (Beside the features, RaisedWait holds the
// first signal after a worker's failure.)
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include "launcher/stop/stop_consent.hpp"
#include "rendezvous/base/alive.hpp"

namespace ddprun {
inline namespace launch {

// StopQuestion asks all features, each with what it goes on by, and returns those that hold the step, by
// number.
using StopQuestion =
    std::function<std::set<int>(const StopCause& cause, const std::function<GoOn(int)>& go_on_of)>;

class StopGate {
  public:
    StopGate(const boost::asio::any_io_executor& executor, StopQuestion ask)
        : ask_(std::move(ask)), timer_(executor) {}

    // Asks all features, and returns true if the step is held: `step` is called once, when all that hold it
    // have gone on, at the latest after longest_hold(until_kill), unless the step is dropped. Returns false
    // if the caller is to take the step itself, now. A step that is held already is taken first.
    bool hold(StopCause cause, std::chrono::milliseconds until_kill, std::function<void()> step);

    // Takes a step that is held, if there is one, without waiting any longer.
    void take_now();

    // Forgets a step that is held.
    void drop();

  private:
    void gone_on(int hold, int feature);

    const StopQuestion ask_;
    boost::asio::steady_timer timer_;
    std::function<void()> step_;  // while it is held, or features are being asked
    StopConsent consent_;
    int hold_ = 0;  // numbers the steps
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
