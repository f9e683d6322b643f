#include "launcher/stop/stop_gate.hpp"

namespace ddprun {
inline namespace launch {

bool StopGate::hold(StopCause cause, std::chrono::milliseconds until_kill, std::function<void()> step) {
    take_now();
    const int hold = ++hold_;
    consent_ = {};
    step_ = std::move(step);
    cause.longest = longest_hold(until_kill);
    std::set<int> holding = ask_(cause, [this, hold](int feature) {
        return alive_.guard([this, hold, feature] { gone_on(hold, feature); });
    });
    // A feature has brought about what takes or drops the step.
    if (hold != hold_ || !step_) return true;
    consent_.wait_for(std::move(holding));
    if (consent_.is_given() || cause.longest.count() == 0) {
        step_ = nullptr;
        return false;
    }
    timer_.expires_after(cause.longest);
    timer_.async_wait(alive_.guard([this, hold](boost::system::error_code cancelled) {
        if (!cancelled && hold == hold_) take_now();
    }));
    return true;
}

void StopGate::take_now() {
    const auto step = std::exchange(step_, nullptr);
    if (!step) return;
    timer_.cancel();
    step();
}

void StopGate::drop() {
    if (std::exchange(step_, nullptr)) timer_.cancel();
}

void StopGate::gone_on(int hold, int feature) {
    if (hold != hold_ || !step_) return;
    consent_.go_on(feature);
    if (consent_.is_given()) take_now();
}

}  // namespace launch
}  // namespace ddprun
