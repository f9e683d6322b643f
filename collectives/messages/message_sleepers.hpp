// MessageSleepers: the threads of a messenger that sleep, and what wakes them. The tables of
// sleeper_table.hpp decide; MessageSleepers carries out what they say.
//
// Under the messenger's lock, where nothing else is said; begin_waiting(), end_waiting() and count_in() come
// without.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/messages/message_surroundings.hpp"
#include "collectives/messages/shm_message_line.hpp"
#include "collectives/messages/sleeper_table.hpp"
#include "collectives/shm/message_layout.hpp"
#include "collectives/wire/event.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

class MessageSleepers {
  public:
    using Lock = std::unique_lock<std::mutex>;
    // Threads: the bodies of the helper, and of the thread for connections; only ranks that share memory with
    // others have the latter.
    struct Threads {
        std::function<void()> helper;
        std::function<void()> connections;
    };

    // MessageSleepers borrows all. `bell` is in the memory that the ranks of this host share; null: there is
    // none.
    MessageSleepers(MessageSurroundings& surroundings, MessageBell* bell, Threads threads);

    bool shares_memory() const noexcept { return bell_ != &own_bell_; }
    MessageBell& bell() noexcept { return *bell_; }
    // Returns true once lines to other hosts are in use. Any thread.
    bool is_connected() const noexcept { return connected_.load(std::memory_order_relaxed); }

    // Wakes the sleepers at news. Any thread, without the lock.
    void hear_news();
    // Counts a thread that waits from now on, and looks for all.
    void begin_waiting() {
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        tell_helper(HelperEvent::waiter_came);
    }
    // Counts that thread no longer; true where it has to call leave_alone().
    bool end_waiting() {
        return waiters_.fetch_sub(1, std::memory_order_seq_cst) <= 1 && has_something_open();
    }
    // Counts a thread among the bell's sleepers before its last look, so that the bell is rung for what comes
    // later. Returns what the bell has to count until the thread is woken.
    std::uint32_t count_in();
    void count_out() { bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst); }
    void doze(std::uint32_t count, Deadline end) { surroundings_.sleep_on(bell_->count, count, end); }

    void wake(WakeCause cause);
    // Leaves what is open to the helper and the thread for connections. `is_ready()`: something has come, for
    // which the bell may not have been rung.
    template <class IsReady>
    void leave_alone(IsReady is_ready);
    // Makes or calls the helper, as an operation was started. Throws std::system_error where there is no
    // thread for it.
    void want_helper();
    // Makes or calls the thread that looks after lines to other hosts, which are yet to be made. Throws as
    // Event and want_helper().
    void prepare_connections();
    void note_connected() { connected_.store(true, std::memory_order_seq_cst); }
    void begin_started() { started_open_.fetch_add(1, std::memory_order_seq_cst); }
    void end_started() { started_open_.fetch_sub(1, std::memory_order_seq_cst); }
    // Notes that bytes have no room.
    void note_unsent() { wake(unsent_.exchange(true) ? WakeCause::still_unsent : WakeCause::unsent); }
    // Returns whether bytes had no room, and forgets it. Called before all is put that may have room now.
    bool take_unsent() { return unsent_ && unsent_.exchange(false); }
    bool has_unsent() const { return unsent_; }

    // Returns whether the caller, which would sleep, is to do so on the connections.
    bool may_poll() const { return !shares_memory() && is_connected() && poller_ == PollerState::none; }
    // Sleeps without the lock on the descriptors of add(), and on what wakes the poller.
    template <class AddDescriptors>
    void poll(Lock& lock, Deadline end, AddDescriptors add);

    // helper_is_needed() and connections_are_needed(): whether those threads have something to do.
    bool helper_is_needed() const { return waiters_.load() == 0 && has_something_open(); }
    bool connections_are_needed() const { return waiters_.load() > 0 || has_something_open(); }
    // idle(), watch() and rest() are the helper's. idle() sleeps until it is called. watch() says that it
    // will look, and returns what the bell has to count until it is woken. rest() sleeps on the bell. The
    // helper has the lock again behind each.
    void idle(Lock& lock);
    std::uint32_t watch();
    void rest(Lock& lock, std::uint32_t count, Deadline end);

    bool is_closing() const { return closing_; }
    void close();

  private:
    bool has_something_open() const { return started_open_.load() > 0 || unsent_; }
    HelperAction step_helper(HelperEvent event);
    void carry_out(HelperAction action);
    void tell_helper(HelperEvent event) { carry_out(step_helper(event)); }
    void step_poller(PollerEvent event);

    MessageSurroundings& surroundings_;
    const Threads threads_;
    MessageBell own_bell_{};
    MessageBell* const bell_;
    std::atomic<int> waiters_{0};
    std::atomic<int> started_open_{0};
    std::atomic<bool> unsent_{false};  // some connection has no room for all there is
    std::atomic<bool> connected_{false};
    std::atomic<HelperState> helper_{HelperState::none};  // changed under the lock, but for waiter_came
    PollerState poller_ = PollerState::none;
    bool closing_ = false;
    std::optional<Event> poller_wake_;
    std::vector<pollfd> polled_;  // the poller's
};

template <class IsReady>
void MessageSleepers::leave_alone(IsReady is_ready) {
    const HelperAction action = step_helper(HelperEvent::left_alone);
    carry_out(action);
    // tells: only once the helper is counted, since the bell is rung for what comes later.
    const bool tells = action == HelperAction::tell || action == HelperAction::count_and_tell;
    if (tells && is_ready()) ring_bell(*bell_);
    wake(WakeCause::left_alone);
}

template <class AddDescriptors>
void MessageSleepers::poll(Lock& lock, Deadline end, AddDescriptors add) {
    polled_.assign(1, {poller_wake_->descriptor(), POLLIN, 0});
    add(polled_);
    step_poller(PollerEvent::sleeps);
    lock.unlock();
    surroundings_.poll(polled_, end);
    poller_wake_->clear();
    lock.lock();
    step_poller(PollerEvent::rises);
    // Wakes another waiter, which takes the place.
    if (!shares_memory() && bell_->sleepers > 1) ring_bell(*bell_);
}

}  // namespace detail
}  // namespace ddprun
