#include "launcher/agent/agent_machine.hpp"

#include <fmt/core.h>

#include "rendezvous/base/transition_table.hpp"

namespace ddprun {
inline namespace launch {
namespace {

struct AgentTable {
    using enum AgentState;
    using E = AgentEvent;
    using A = AgentAction;

    // clang-format off
    static constexpr Transition<AgentState, E, A> kRows[] = {
        {joining,         E::round_ready,       A::start_workers,  running},
        {joining,         E::reminder_due,      A::remind,         joining},
        {joining,         E::refused,           A::leave,          draining_output},
        {joining,         E::connection_lost,   A::join_again,     joining},
        {joining,         E::finish_ordered,    A::leave,          draining_output},
        {joining,         E::signal_received,   A::leave,          draining_output},
        {joining,         E::interrupted_again, A::leave,          draining_output},

        {running,         E::connection_lost,   A::stop_workers,   stopping_alone},
        {running,         E::leader_lost,       A::stop_workers,   stopping_leaderless},
        {running,         E::refused,           A::stop_workers,   stopping_alone},
        {running,         E::workers_succeeded, A::report_success, draining},
        {running,         E::worker_failed,     A::report_failure, stopping},
        {running,         E::stop_ordered,      A::stop_workers,   stopping},
        {running,         E::signal_received,   A::report_signal,  stopping},
        {running,         E::interrupted_again, A::kill_workers,   stopping},

        {draining,        E::connection_lost,   A::leave,          draining_output},
        {draining,        E::leader_lost,       A::none,           seeking},
        {draining,        E::refused,           A::leave,          draining_output},
        {draining,        E::stop_ordered,      A::report_gone,    leaving},
        {draining,        E::finish_ordered,    A::leave,          draining_output},
        {draining,        E::signal_received,   A::tell_signal,    draining},
        {draining,        E::interrupted_again, A::leave,          draining_output},
        {draining,        E::finish_timed_out,  A::leave,          draining_output},

        {stopping,        E::connection_lost,   A::none,           stopping_alone},
        {stopping,        E::leader_lost,       A::none,           stopping_leaderless},
        {stopping,        E::refused,           A::none,           stopping_alone},
        {stopping,        E::workers_succeeded, A::report_gone,    leaving},
        {stopping,        E::workers_gone,      A::report_gone,    leaving},
        {stopping,        E::signal_received,   A::tell_signal,    stopping},
        {stopping,        E::interrupted_again, A::kill_workers,   stopping},

        {stopping_alone,  E::workers_succeeded, A::leave,          draining_output},
        {stopping_alone,  E::workers_gone,      A::leave,          draining_output},
        {stopping_alone,  E::interrupted_again, A::kill_workers,   stopping_alone},

        {stopping_leaderless, E::led,               A::none,         stopping},
        {stopping_leaderless, E::connection_lost,   A::none,         stopping_alone},
        {stopping_leaderless, E::refused,           A::none,         stopping_alone},
        {stopping_leaderless, E::workers_succeeded, A::none,         seeking},
        {stopping_leaderless, E::workers_gone,      A::none,         seeking},
        {stopping_leaderless, E::interrupted_again, A::kill_workers, stopping_leaderless},

        {seeking,         E::led,               A::report_gone,    leaving},
        {seeking,         E::place_awaited,     A::await_place,    rejoining},
        {seeking,         E::round_ready,       A::start_workers,  running},
        {seeking,         E::connection_lost,   A::leave,          draining_output},
        {seeking,         E::refused,           A::leave,          draining_output},
        {seeking,         E::finish_ordered,    A::leave,          draining_output},
        {seeking,         E::signal_received,   A::leave,          draining_output},
        {seeking,         E::interrupted_again, A::leave,          draining_output},

        {leaving,         E::leader_lost,       A::none,           seeking},
        {leaving,         E::round_ready,       A::start_workers,  running},
        {leaving,         E::connection_lost,   A::leave,          draining_output},
        {leaving,         E::refused,           A::leave,          draining_output},
        {leaving,         E::finish_ordered,    A::leave,          draining_output},
        {leaving,         E::signal_received,   A::tell_signal,    leaving},
        {leaving,         E::interrupted_again, A::leave,          draining_output},
        {leaving,         E::finish_timed_out,  A::leave,          draining_output},

        {leaving,         E::place_awaited,     A::await_place,    rejoining},

        {rejoining,       E::round_ready,       A::start_workers,  running},
        {rejoining,       E::reminder_due,      A::remind,         rejoining},
        {rejoining,       E::place_lost,        A::join_again,     rejoining},
        {rejoining,       E::refused,           A::leave,          draining_output},
        {rejoining,       E::connection_lost,   A::leave,          draining_output},
        {rejoining,       E::leader_lost,       A::none,           seeking},
        {rejoining,       E::finish_ordered,    A::leave,          draining_output},
        {rejoining,       E::signal_received,   A::tell_signal,    rejoining},
        {rejoining,       E::interrupted_again, A::leave,          draining_output},
        {rejoining,       E::finish_timed_out,  A::leave,          draining_output},

        {draining_output, E::output_shown,      A::report,         reporting},
        {draining_output, E::interrupted_again, A::report,         reporting},
        {reporting,       E::reported,          A::await_goodbye,  saying_goodbye},
        {saying_goodbye,  E::goodbye_said,      A::await_others,   awaiting_others},
        {awaiting_others, E::others_left,       A::end,            done},
    };
    // clang-format on
};
static_assert(is_unambiguous(AgentTable::kRows));

}  // namespace

AgentAction AgentMachine::handle(AgentEvent event) {
    const auto* row = find_transition(AgentTable::kRows, state_, event);
    if (row == nullptr) return AgentAction::none;
    state_ = row->next;
    return row->action;
}

std::string transition_text(AgentState before, AgentEvent event, AgentState after) {
    if (before == after || after > AgentState::draining_output) return {};
    return fmt::format("{} -> {} by {}", to_text(before), to_text(after), to_text(event));
}

}  // namespace launch
}  // namespace ddprun
