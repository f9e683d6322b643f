#include "rendezvous/coordinator/coordinator_table.hpp"

#include <array>

#include "rendezvous/base/transition_table.hpp"

namespace ddprun {
inline namespace job {
namespace {

struct CoordinatorTable {
    using enum CoordinatorState;
    using E = CoordinatorEvent;
    using A = CoordinatorAction;

    // clang-format off
    static constexpr Transition<CoordinatorState, E, A> kRows[] = {
        {gathering, E::hello,             A::admit,          gathering},
        {gathering, E::all_joined,        A::start_round,    running},
        {gathering, E::last_call_over,    A::start_round,    running},
        {gathering, E::nodes_unfit,       A::refuse_all,     over},
        {gathering, E::status_due,        A::tell_waiting,   gathering},
        {gathering, E::join_timed_out,    A::give_up,        over},
        {gathering, E::node_lost,         A::forget,         gathering},
        {gathering, E::heartbeat,         A::confirm,        gathering},
        {gathering, E::suspended,         A::excuse,         gathering},

        {gathering, E::job_moved,         A::move,           moved},

        {electing,  E::hello,             A::admit_follower, electing},
        {electing,  E::follows,           A::note_follower,  electing},
        {electing,  E::node_leaves,       A::note_leaving,   electing},
        {electing,  E::rank_ends,         A::keep_ends,      electing},
        {electing,  E::workers_gone,      A::node_gone,      electing},
        {electing,  E::heartbeat,         A::confirm,        electing},
        {electing,  E::suspended,         A::excuse,         electing},
        {electing,  E::node_lost,         A::forget_follower, electing},
        {electing,  E::ended_node_lost,   A::forget_follower, electing},
        {electing,  E::elected,           A::take_over,      stopping},
        {electing,  E::election_over,     A::step_down,       over},

        {running,   E::hello,             A::enqueue,        running},
        {running,   E::job_moved,         A::tell_other_group, running},
        {running,   E::quorum_lost,       A::stop_all,       stopping},
        {running,   E::resize_due,        A::resize,         stopping},
        {running,   E::node_leaves,       A::stop_all,       stopping},
        {running,   E::worker_dying,      A::suspect,        running},
        {running,   E::notice_signal,     A::pass_on,        running},
        {running,   E::rank_ends,         A::keep_ends,      running},
        {running,   E::heartbeat,         A::confirm,        running},
        {running,   E::suspended,         A::excuse,         running},
        {running,   E::rank_succeeded,    A::begin_exit_wait, running},
        {running,   E::exit_wait_due,     A::exit_wait_due,  running},
        {running,   E::still_running,     A::note_running,   running},
        {running,   E::overdue,           A::stop_overdue,   stopping},
        {running,   E::workers_succeeded, A::node_succeeded, running},
        {running,   E::worker_failed,     A::stop_all,       stopping},
        {running,   E::agent_signalled,   A::stop_all,       stopping},
        {running,   E::node_lost,         A::stop_all,       stopping},
        // The job needs no more of a node whose workers are done: no row for ended_node_lost.
        {running,   E::all_ended,         A::finish,         over},

        {stopping,  E::hello,             A::enqueue,        stopping},
        {stopping,  E::node_leaves,       A::note_leaving,   stopping},
        {stopping,  E::worker_dying,      A::contend,        stopping},
        {stopping,  E::worker_failed,     A::contend,        stopping},
        {stopping,  E::rank_ends,         A::keep_ends,      stopping},
        {stopping,  E::heartbeat,         A::confirm,        stopping},
        {stopping,  E::suspended,         A::excuse,         stopping},
        {stopping,  E::workers_gone,      A::node_gone,      stopping},
        {stopping,  E::node_lost,         A::node_gone,      stopping},
        {stopping,  E::all_ended,         A::decide,         stopping},
        {stopping,  E::judgement_wanted,  A::ask_judge,      judging},
        {stopping,  E::restart_granted,   A::pause,          pausing},
        {stopping,  E::restart_refused,   A::finish,         over},
        {stopping,  E::was_decided,       A::go_on_pausing,  pausing},

        {judging,   E::hello,             A::enqueue,        judging},
        {judging,   E::heartbeat,         A::confirm,        judging},
        {judging,   E::suspended,         A::excuse,         judging},
        {judging,   E::node_leaves,       A::note_leaving,   judging},
        {judging,   E::agent_signalled,   A::abort,          over},
        {judging,   E::judged,            A::settle,         judging},
        {judging,   E::judgement_overdue, A::settle,         judging},
        {judging,   E::restart_granted,   A::pause,          pausing},
        {judging,   E::restart_refused,   A::finish,         over},
        {judging,   E::quorum_lost,       A::finish,         over},

        {pausing,   E::hello,             A::enqueue,        pausing},
        {pausing,   E::heartbeat,         A::confirm,        pausing},
        {pausing,   E::suspended,         A::excuse,         pausing},
        {pausing,   E::node_leaves,       A::note_leaving,   pausing},
        {pausing,   E::agent_signalled,   A::abort,          over},
        // Whether that matters, the end of the pause shows: no row for ended_node_lost.
        {pausing,   E::pause_over,        A::begin_again,    pausing},
        {pausing,   E::all_joined,        A::start_round,    running},
        {pausing,   E::nodes_missing,     A::await_return,   awaiting_return},
        {pausing,   E::record_wanted,     A::record,         recording},
        {pausing,   E::quorum_lost,       A::finish,         over},
        {pausing,   E::host_leaves,       A::step_down,       over},
        {pausing,   E::restart_refused,   A::finish,         over},

        {awaiting_return, E::hello,           A::enqueue,      awaiting_return},
        {awaiting_return, E::heartbeat,       A::confirm,      awaiting_return},
        {awaiting_return, E::suspended,       A::excuse,       awaiting_return},
        {awaiting_return, E::status_due,      A::tell_waiting, awaiting_return},
        {awaiting_return, E::agent_signalled, A::abort,        over},
        {awaiting_return, E::node_leaves,     A::note_leaving, awaiting_return},
        {awaiting_return, E::grace_runs,      A::none,         pausing},
        {awaiting_return, E::all_joined,      A::start_round,  running},
        {awaiting_return, E::join_timed_out,  A::finish,       over},
        {awaiting_return, E::quorum_lost,     A::finish,       over},

        {recording, E::hello,             A::enqueue,        recording},
        {recording, E::heartbeat,         A::confirm,        recording},
        {recording, E::suspended,         A::excuse,         recording},
        {recording, E::node_leaves,       A::note_leaving,   recording},
        {recording, E::agent_signalled,   A::abort,          over},
        {recording, E::recorded,          A::begin_again,    pausing},
        {recording, E::deposed,           A::finish,         over},
        {recording, E::join_timed_out,    A::finish,         over},

        {moved,     E::hello,             A::redirect,       moved},
        {moved,     E::job_moved,         A::move,           moved},

        {over,      E::hello,             A::refuse,         over},
        {over,      E::goodbye,           A::release,        over},
    };
    // clang-format on
};
static_assert(is_unambiguous(CoordinatorTable::kRows));

// The rows stand in the order of ControlMessage's alternatives, as far as agents send them.
constexpr std::array<std::optional<CoordinatorEvent>, std::variant_size_v<ControlMessage>> kEvents = {
    CoordinatorEvent::hello,           CoordinatorEvent::workers_succeeded,
    CoordinatorEvent::worker_failed,   CoordinatorEvent::worker_dying,
    CoordinatorEvent::agent_signalled, CoordinatorEvent::workers_gone,
    CoordinatorEvent::rank_ends,       CoordinatorEvent::notice_signal,
    CoordinatorEvent::heartbeat,       CoordinatorEvent::suspended,
    CoordinatorEvent::rank_succeeded,  CoordinatorEvent::still_running,
    CoordinatorEvent::judged,          std::nullopt,
    CoordinatorEvent::goodbye,         CoordinatorEvent::follows,
    CoordinatorEvent::job_moved};

}  // namespace

CoordinatorStep next_step(CoordinatorState state, CoordinatorEvent event) {
    const auto* row = find_transition(CoordinatorTable::kRows, state, event);
    return row == nullptr ? CoordinatorStep{.next = state} : CoordinatorStep{row->action, row->next};
}

std::optional<CoordinatorEvent> event_of(const ControlMessage& message) {
    return kEvents.at(message.index());
}

std::optional<int> round_of(const ControlMessage& message) {
    return std::visit(
        [](const auto& one) -> std::optional<int> {
            if constexpr (requires { one.round; }) return one.round;
            return std::nullopt;
        },
        message);
}

}  // namespace job
}  // namespace ddprun
