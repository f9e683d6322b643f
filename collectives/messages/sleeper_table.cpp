#include "collectives/messages/sleeper_table.hpp"

#include <cstddef>
#include <iterator>

#include "rendezvous/base/transition_table.hpp"

namespace ddprun {
inline namespace detail {
namespace {

using HelperRow = Transition<HelperState, HelperEvent, HelperAction>;
using PollerRow = Transition<PollerState, PollerEvent, PollerAction>;

struct HelperTable {
    using E = HelperEvent;
    using A = HelperAction;
    using enum HelperState;

    // clang-format off
    static constexpr HelperRow kRows[] = {
        {none,     E::wanted,      A::make,           none},
        {none,     E::left_alone,  A::none,           none},
        {none,     E::waiter_came, A::none,           none},
        {none,     E::wakes,       A::none,           looking},
        {none,     E::idles,       A::never,          none},
        {none,     E::watches,     A::never,          none},
        {none,     E::rests,       A::never,          none},

        {idle,     E::wanted,      A::call,           idle},
        {idle,     E::left_alone,  A::none,           idle},
        {idle,     E::waiter_came, A::none,           idle},
        {idle,     E::wakes,       A::none,           looking},
        {idle,     E::idles,       A::never,          idle},
        {idle,     E::watches,     A::never,          idle},
        {idle,     E::rests,       A::never,          idle},

        {looking,  E::wanted,      A::none,           looking},
        {looking,  E::left_alone,  A::none,           looking},
        {looking,  E::waiter_came, A::none,           looking},
        {looking,  E::wakes,       A::none,           looking},
        {looking,  E::idles,       A::none,           idle},
        {looking,  E::watches,     A::count,          watching},
        {looking,  E::rests,       A::none,           resting},

        {watching, E::wanted,      A::none,           watching},
        {watching, E::left_alone,  A::none,           watching},
        {watching, E::waiter_came, A::uncount,        looking},
        {watching, E::wakes,       A::never,          watching},
        {watching, E::idles,       A::never,          watching},
        {watching, E::watches,     A::never,          watching},
        {watching, E::rests,       A::none,           guarding},

        {resting,  E::wanted,      A::count,          guarding},
        {resting,  E::left_alone,  A::count_and_tell, guarding},
        {resting,  E::waiter_came, A::none,           resting},
        {resting,  E::wakes,       A::none,           looking},
        {resting,  E::idles,       A::never,          resting},
        {resting,  E::watches,     A::never,          resting},
        {resting,  E::rests,       A::never,          resting},

        {guarding, E::wanted,      A::none,           guarding},
        {guarding, E::left_alone,  A::tell,           guarding},
        {guarding, E::waiter_came, A::uncount,        resting},
        {guarding, E::wakes,       A::uncount,        looking},
        {guarding, E::idles,       A::never,          guarding},
        {guarding, E::watches,     A::never,          guarding},
        {guarding, E::rests,       A::never,          guarding},
    };
    // clang-format on
};

struct PollerTable {
    using E = PollerEvent;
    using A = PollerAction;
    using enum PollerState;

    static constexpr PollerRow kRows[] = {
        {none, E::sleeps, A::none, asleep},  {none, E::wake, A::none, none},
        {none, E::rises, A::never, none},    {asleep, E::sleeps, A::never, asleep},
        {asleep, E::wake, A::signal, woken}, {asleep, E::rises, A::none, none},
        {woken, E::sleeps, A::never, woken}, {woken, E::wake, A::none, woken},
        {woken, E::rises, A::none, none},
    };
};

struct WakeRow {
    WakeCause cause;
    Wake wake;
};

constexpr WakeRow kWakes[] = {
    {WakeCause::ended, {Ring::waiters, WakePoller::waiter, CallIdle::no}},
    {WakeCause::sent_all, {Ring::waiters, WakePoller::waiter, CallIdle::no}},
    {WakeCause::sooner, {Ring::all, WakePoller::waiter, CallIdle::no}},
    {WakeCause::unsent, {Ring::no, WakePoller::any, CallIdle::all}},
    {WakeCause::still_unsent, {Ring::no, WakePoller::any, CallIdle::no}},
    {WakeCause::wanted, {Ring::no, WakePoller::no, CallIdle::connections}},
    {WakeCause::left_alone, {Ring::no, WakePoller::no, CallIdle::all}},
    {WakeCause::slept, {Ring::no, WakePoller::no, CallIdle::connections}},
    {WakeCause::closing, {Ring::always, WakePoller::any, CallIdle::all}},
};

constexpr bool has_every_cause() {
    for (std::size_t i = 0; i < kWakeCauses; ++i) {
        if (std::size(kWakes) != kWakeCauses || kWakes[i].cause != static_cast<WakeCause>(i)) return false;
    }
    return true;
}

constexpr bool counts(HelperAction action) {
    return action == HelperAction::count || action == HelperAction::count_and_tell;
}

// The bell's sleepers are as many as it says.
constexpr bool counts_right(const HelperRow& row) {
    if (row.action == HelperAction::never) return true;
    const bool before = is_counted(row.state);
    const bool after = is_counted(row.next);
    return counts(row.action) == (!before && after) &&
           (row.action == HelperAction::uncount) == (before && !after);
}

// Where nobody else looks, the helper is awake, is called, or has others ring for it; where somebody does, it
// has not.
constexpr bool leaves_nothing_lying(const HelperRow& row) {
    if (row.event == HelperEvent::waiter_came) return !is_counted(row.next);
    if (row.event != HelperEvent::wanted && row.event != HelperEvent::left_alone) return true;
    if (row.state == HelperState::none)
        return row.event == HelperEvent::left_alone || row.action == HelperAction::make;
    if (row.state == HelperState::idle)
        return row.action == HelperAction::call || row.event == HelperEvent::left_alone;  // all are called
    return row.next != HelperState::resting;
}

template <class Row, std::size_t kRows>
constexpr bool all_rows(const Row (&rows)[kRows], bool (*holds)(const Row&)) {
    for (const Row& row : rows) {
        if (!holds(row)) return false;
    }
    return true;
}

static_assert(is_complete<kHelperStates, kHelperEvents>(HelperTable::kRows));
static_assert(is_complete<kPollerStates, kPollerEvents>(PollerTable::kRows));
static_assert(has_every_cause());
static_assert(all_rows(HelperTable::kRows, counts_right));
static_assert(all_rows(HelperTable::kRows, leaves_nothing_lying));

}  // namespace

HelperStep next_step(HelperState state, HelperEvent event) {
    const HelperRow& row = row_of<kHelperEvents>(HelperTable::kRows, state, event);
    return {row.action, row.next};
}

PollerStep next_step(PollerState state, PollerEvent event) {
    const PollerRow& row = row_of<kPollerEvents>(PollerTable::kRows, state, event);
    return {row.action, row.next};
}

Wake wake_for(WakeCause cause) { return kWakes[static_cast<std::size_t>(cause)].wake; }

}  // namespace detail
}  // namespace ddprun
