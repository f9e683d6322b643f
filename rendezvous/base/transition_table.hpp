// A state machine is written as a table: one row for each event that is news in a state. An event without a
// row in the state changes nothing and asks for nothing. Pure.
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

// Returns null where the event is no news.
template <typename State, typename Event, typename Action, std::size_t kRows>
constexpr const Transition<State, Event, Action>* find_transition(
    const Transition<State, Event, Action> (&rows)[kRows], State state, Event event) {
    for (const auto& row : rows) {
        if (row.state == state && row.event == event) return &row;
    }
    return nullptr;
}

// True if no event has two rows in one state; a static_assert beside the table says so.
template <typename State, typename Event, typename Action, std::size_t kRows>
constexpr bool is_unambiguous(const Transition<State, Event, Action> (&rows)[kRows]) {
    for (const auto& row : rows) {
        if (find_transition(rows, row.state, row.event) != &row) return false;
    }
    return true;
}

// True if each event has a row in each state, in the order of states and, within each, of events; then
// row_of() finds it.
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
