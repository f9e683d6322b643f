#include "collectives/messages/message_sleepers.hpp"

#include <utility>

#include "rendezvous/base/check.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {

MessageSleepers::MessageSleepers(MessageSurroundings& surroundings, MessageBell* bell, Threads threads)
    : surroundings_(surroundings), threads_(std::move(threads)), bell_(bell != nullptr ? bell : &own_bell_) {}

void MessageSleepers::hear_news() {
    ring_bell(*bell_);
    if (connected_.load(std::memory_order_seq_cst)) poller_wake_->signal();
}

std::uint32_t MessageSleepers::count_in() {
    bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    return bell_->count.load(std::memory_order_seq_cst);
}

HelperAction MessageSleepers::step_helper(HelperEvent event) {
    HelperState state = helper_.load(std::memory_order_seq_cst);
    while (true) {
        const HelperStep step = next_step(state, event);
        if (step.next == state || helper_.compare_exchange_weak(state, step.next, std::memory_order_seq_cst))
            return step.action;
    }
}

void MessageSleepers::carry_out(HelperAction action) {
    switch (action) {
        case HelperAction::none:
        case HelperAction::tell: return;
        case HelperAction::make:
            surroundings_.make_thread(threads_.helper);
            return tell_helper(HelperEvent::wakes);
        case HelperAction::call: return surroundings_.call_all();
        case HelperAction::count:
        case HelperAction::count_and_tell: bell_->sleepers.fetch_add(1, std::memory_order_seq_cst); return;
        case HelperAction::uncount: bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst); return;
        case HelperAction::never: check(false, "the helper of messages is where it cannot be");
    }
}

void MessageSleepers::wake(WakeCause cause) {
    const Wake wake = wake_for(cause);
    const std::uint32_t sleepers = bell_->sleepers;  // before helper_, which others may change
    const std::uint32_t helpers = is_counted(helper_.load()) ? 1 : 0;
    if (wake.ring == Ring::all || (wake.ring == Ring::waiters && sleepers > helpers)) ring_bell(*bell_);
    if (wake.ring == Ring::always) {
        bell_->count.fetch_add(1, std::memory_order_seq_cst);
        futex_wake_all(bell_->count);
    }
    if (wake.poller == WakePoller::any || (wake.poller == WakePoller::waiter && !shares_memory())) {
        step_poller(PollerEvent::wake);
    }
    if (wake.idle == CallIdle::all ||
        (wake.idle == CallIdle::connections && shares_memory() && is_connected()))
        surroundings_.call_all();
}

void MessageSleepers::want_helper() {
    tell_helper(HelperEvent::wanted);
    wake(WakeCause::wanted);
}

void MessageSleepers::prepare_connections() {
    if (!poller_wake_) poller_wake_.emplace();
    // It waits for the lock.
    shares_memory() ? surroundings_.make_thread(threads_.connections) : want_helper();
}

void MessageSleepers::step_poller(PollerEvent event) {
    const PollerStep step = next_step(poller_, event);
    check(step.action != PollerAction::never, "the poller of messages is where it cannot be");
    poller_ = step.next;
    if (step.action == PollerAction::signal) poller_wake_->signal();
}

void MessageSleepers::idle(Lock& lock) {
    tell_helper(HelperEvent::idles);
    surroundings_.sleep_until_called(lock);
    tell_helper(HelperEvent::wakes);
}

std::uint32_t MessageSleepers::watch() {
    if (helper_is_needed()) tell_helper(HelperEvent::watches);
    return bell_->count.load(std::memory_order_seq_cst);
}

void MessageSleepers::rest(Lock& lock, std::uint32_t count, Deadline end) {
    // A waiter has come and left while the helper copied without the lock: nobody has rung for what came
    // since.
    if (!is_counted(helper_.load()) && helper_is_needed()) return;
    tell_helper(HelperEvent::rests);
    lock.unlock();
    doze(count, end);
    lock.lock();
    tell_helper(HelperEvent::wakes);
}

void MessageSleepers::close() {
    closing_ = true;
    wake(WakeCause::closing);
}

}  // namespace detail
}  // namespace ddprun
