// Transition is one row of a state machine written as a table: a row for each event that is news in a state.
// An event without a row in the state changes nothing and causes no action. Pure.
#pragma once

#include <cstddef>

namespace ddprun {
inline namespace base {

template <typename State, typename Event, typename Action>
struct Transition {
    State state;
    Event event;
    Action action;
    State next;
};

// Returns the row of the event in the state; null where the event is no news.
template <typename State, typename Event, typename Action, std::size_t kRows>
constexpr const Transition<State, Event, Action>* find_transition(
    const Transition<State, Event, Action> (&rows)[kRows], State state, Event event) {
    for (const auto& row : rows) {
        if (row.state == state && row.event == event) return &row;
    }
    return nullptr;
}

// Says whether no event has two rows in one state; a static_assert beside each table requires it.
template <typename State, typename Event, typename Action, std::size_t kRows>
constexpr bool is_unambiguous(const Transition<State, Event, Action> (&rows)[kRows]) {
    for (const auto& row : rows) {
        if (find_transition(rows, row.state, row.event) != &row) return false;
    }
    return true;
}

// Says whether each event has a row in each state, in the order of states and then of events; row_of()
// requires that.
template <std::size_t kStates, std::size_t kEvents, typename State, typename Event, typename Action,
          std::size_t kRows>
constexpr bool is_complete(const Transition<State, Event, Action> (&rows)[kRows]) {
    for (std::size_t i = 0; i < kRows; ++i) {
        if (rows[i].state != State(i / kEvents) || rows[i].event != Event(i % kEvents)) return false;
    }
    return kRows == kStates * kEvents;
}

template <std::size_t kEvents, typename State, typename Event, typename Action, std::size_t kRows>
constexpr const Transition<State, Event, Action>& row_of(
    const Transition<State, Event, Action> (&rows)[kRows], State state, Event event) {
    return rows[static_cast<std::size_t>(state) * kEvents + static_cast<std::size_t>(event)];
}

}  // namespace base
}  // namespace ddprun
