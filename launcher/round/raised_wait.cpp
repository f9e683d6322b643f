#include "launcher/round/raised_wait.hpp"

#include <csignal>
#include <utility>

#include "rendezvous/base/transition_table.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// A worker that raised something may take so long to end, which stops nothing: most that hold connections
// have been closed by then, so the others fail before it ends.
constexpr std::chrono::milliseconds kRaisedWait{300};
// Where a worker has lost its connection and nothing is known of why, another one may be about to show what
// it raised: it has closed its connections a moment before.
constexpr std::chrono::milliseconds kVictimWait{100};
// What was raised longer ago was caught, and did not end the worker.
constexpr std::chrono::seconds kRaisedLately{10};

struct RaisedTable {
    using enum RaisedState;
    using E = RaisedEvent;
    using A = RaisedAction;

    // clang-format off
    static constexpr Transition<RaisedState, E, A> kRows[] = {
        {idle,           E::held,        A::read,        reading},
        {idle,           E::sent,        A::none,        signalled},

        {reading,        E::nobody_left, A::go_on,       idle},
        {reading,        E::only_victim, A::await_words, awaiting_words},
        {reading,        E::raiser_runs, A::await_ends,  awaiting_ends},
        {reading,        E::sent,        A::none,        signalled},

        {awaiting_words, E::nobody_left, A::go_on,       idle},
        {awaiting_words, E::raiser_runs, A::await_ends,  awaiting_ends},
        {awaiting_words, E::time_over,   A::go_on,       idle},
        {awaiting_words, E::sent,        A::none,        signalled},

        {awaiting_ends,  E::nobody_left, A::go_on,       idle},
        {awaiting_ends,  E::only_victim, A::go_on,       idle},
        {awaiting_ends,  E::time_over,   A::go_on,       idle},
        {awaiting_ends,  E::sent,        A::none,        signalled},
    };
    // clang-format on
};
static_assert(is_unambiguous(RaisedTable::kRows));

// True if a worker has failed, here or elsewhere, and nobody has asked for the end.
bool is_by_worker(const StopCause& cause) {
    return cause.failure && cause.failure->kind == Failure::Kind::worker_failed && cause.received == 0;
}

}  // namespace

RaisedAction RaisedMachine::handle(RaisedEvent event) {
    const auto* row = find_transition(RaisedTable::kRows, state_, event);
    if (row == nullptr) return RaisedAction::none;
    state_ = row->next;
    return row->action;
}

bool RaisedWait::hold(const StopCause& cause, const GoOn& go_on) {
    if (cause.is_half_over || !is_by_worker(cause)) return false;
    // One that was killed says nothing, nor has it lost a connection.
    if (cause.failure->signal != 0 && cause.failure->signal != SIGABRT) return false;
    failure_ = *cause.failure;
    go_on_ = go_on;
    handle(RaisedEvent::held);
    return true;
}

void RaisedWait::handle(RaisedEvent event) {
    switch (machine_.handle(event)) {
        case RaisedAction::none: return;
        case RaisedAction::read: return read();
        case RaisedAction::await_words: return await(kVictimWait);
        case RaisedAction::await_ends: return await(kRaisedWait);
        case RaisedAction::go_on: return std::exchange(go_on_, nullptr)();
    }
}

void RaisedWait::note(const StopCause& cause) {
    if (is_by_worker(cause)) note();
}

void RaisedWait::note() {
    if (machine_.state() != RaisedState::signalled) ledger_.note_raised(pump_.raised_within(kRaisedLately));
}

void RaisedWait::note_before_end() {
    if (machine_.state() != RaisedState::idle) note();
}

void RaisedWait::look_after_end() {
    if (go_on_ && machine_.state() != RaisedState::reading) handle(seen());
}

RaisedEvent RaisedWait::seen() const {
    if (!ledger_.awaited_for(failure_).empty()) return RaisedEvent::raiser_runs;
    const bool is_victim = !ledger_.is_explained() && ledger_.has_lost_connection(failure_.rank);
    return is_victim ? RaisedEvent::only_victim : RaisedEvent::nobody_left;
}

void RaisedWait::read() {
    pump_.read_errors(alive_.guard([this] {
        if (!go_on_) return;
        note();
        handle(seen());
    }));
}

void RaisedWait::await(std::chrono::milliseconds most) {
    timer_.expires_after(most);
    timer_.async_wait(alive_.guard([this](boost::system::error_code cancelled) {
        if (cancelled || !go_on_) return;
        note();
        const bool has_words =
            machine_.state() == RaisedState::awaiting_words && seen() == RaisedEvent::raiser_runs;
        handle(has_words ? RaisedEvent::raiser_runs : RaisedEvent::time_over);
    }));
}

bool RaisedWait::send() {
    const bool is_first = machine_.state() != RaisedState::signalled;
    go_on_ = nullptr;
    handle(RaisedEvent::sent);
    return is_first;
}

}  // namespace launch
}  // namespace ddprun
