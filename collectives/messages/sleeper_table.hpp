// next_step() and wake_for(): which of a messenger's threads sleep, and what wakes which, as tables. Pure.
//
// Threads that wait for an operation sleep on the rank's bell, or one of them on the connections, for all. A
// thread of the messenger, the helper, looks for what was started while no thread waits. The helper rests on
// the bell, too, but counts among the bell's sleepers, for which others ring, only while no thread waits. An
// operation that is waited for at once therefore wakes no thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun {
inline namespace detail {

enum class HelperState : std::uint8_t {
    none,      // there is no such thread
    idle,      // sleeps until it is called
    looking,   // awake
    watching,  // awake, and counted among the bell's sleepers
    resting,   // sleeps on the bell, for which others do not ring on its account
    guarding,  // sleeps on the bell, counted
};
inline constexpr std::size_t kHelperStates = static_cast<std::size_t>(HelperState::guarding) + 1;

enum class HelperEvent : std::uint8_t {
    wanted,       // an operation was started
    left_alone,   // no thread waits any more, and there is something to look for
    waiter_came,  // a thread waits, which looks for all; comes without the lock
    wakes,        // the helper is awake
    idles,        // the helper has nothing to look for, and none has begun meanwhile
    watches,      // the helper has something to look for
    rests,        // the helper goes to sleep on the bell
};
inline constexpr std::size_t kHelperEvents = static_cast<std::size_t>(HelperEvent::rests) + 1;

enum class HelperAction : std::uint8_t {
    none,
    make,            // make the helper
    call,            // call the idle threads
    count,           // count the helper among the bell's sleepers
    uncount,         // count it there no longer
    tell,            // tell it of what has come, if something has
    count_and_tell,  // count and tell: the bell was not rung for it
    never,           // does not happen
};

struct HelperStep {
    HelperAction action;
    HelperState next;
};

HelperStep next_step(HelperState state, HelperEvent event);
// Returns whether the helper is one of the bell's sleepers, for which others ring.
constexpr bool is_counted(HelperState state) {
    return state == HelperState::watching || state == HelperState::guarding;
}

// PollerState: what the poller does, the thread that sleeps on the connections.
enum class PollerState : std::uint8_t { none, asleep, woken };
inline constexpr std::size_t kPollerStates = static_cast<std::size_t>(PollerState::woken) + 1;
enum class PollerEvent : std::uint8_t { sleeps, wake, rises };
inline constexpr std::size_t kPollerEvents = static_cast<std::size_t>(PollerEvent::rises) + 1;
enum class PollerAction : std::uint8_t { none, signal, never };

struct PollerStep {
    PollerAction action;
    PollerState next;
};

PollerStep next_step(PollerState state, PollerEvent event);

// WakeCause: what happens under the lock that other threads may sleep through.
enum class WakeCause : std::uint8_t {
    ended,         // an operation has ended
    sent_all,      // what had no room has got out
    sooner,        // a deadline is nearer than all sleeps, or bytes are to be copied
    unsent,        // bytes have no room
    still_unsent,  // bytes have no room, and others had none before
    wanted,        // see HelperEvent
    left_alone,    // see HelperEvent
    slept,         // a thread has looked, and goes to sleep
    closing,       // nothing is waited for any more
};
inline constexpr std::size_t kWakeCauses = static_cast<std::size_t>(WakeCause::closing) + 1;

// Ring: for which of the bell's sleepers it is rung.
enum class Ring : std::uint8_t {
    no,
    waiters,  // if there are some besides the helper
    all,      // if there are some
    always,   // even if none is counted
};
// WakePoller: whether the thread that sleeps on the connections is woken.
enum class WakePoller : std::uint8_t {
    no,
    waiter,
    any
};  // waiter: only where the ranks of this host share no memory
// CallIdle: which idle threads are called.
enum class CallIdle : std::uint8_t { no, connections, all };

struct Wake {
    Ring ring;
    WakePoller poller;
    CallIdle idle;
};

Wake wake_for(WakeCause cause);

}  // namespace detail
}  // namespace ddprun
