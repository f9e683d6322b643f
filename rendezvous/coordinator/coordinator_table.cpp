#include "rendezvous/coordinator/coordinator_table.hpp"

#include "rendezvous/system/transition_table.hpp"

namespace ddprun {
namespace {

struct CoordinatorTable {
    using enum CoordinatorState;
    using E = CoordinatorEvent;
    using A = CoordinatorAction;

    // clang-format off
    static constexpr Transition<CoordinatorState, E, A> kRows[] = {
        {gathering, E::hello,             A::admit,          gathering},
        {gathering, E::all_joined,        A::start_round,    running},
        {gathering, E::status_due,        A::tell_waiting,   gathering},
        {gathering, E::join_timed_out,    A::give_up,        over},
        {gathering, E::node_lost,         A::forget,         gathering},

        {running,   E::hello,             A::refuse,         running},
        {running,   E::worker_dying,      A::suspect,        running},
        {running,   E::notice_signal,     A::pass_on,        running},
        {running,   E::rank_ends,         A::keep_ends,      running},
        {running,   E::workers_succeeded, A::node_succeeded, running},
        {running,   E::worker_failed,     A::stop_all,       stopping},
        {running,   E::agent_signalled,   A::stop_all,       stopping},
        {running,   E::node_lost,         A::stop_all,       stopping},
        // The job needs no more of a node whose workers are done: no row for ended_node_lost.
        {running,   E::all_ended,         A::finish,         over},

        {stopping,  E::hello,             A::refuse,         stopping},
        {stopping,  E::worker_dying,      A::contend,        stopping},
        {stopping,  E::worker_failed,     A::contend,        stopping},
        {stopping,  E::rank_ends,         A::keep_ends,      stopping},
        {stopping,  E::workers_gone,      A::node_gone,      stopping},
        {stopping,  E::node_lost,         A::node_gone,      stopping},
        {stopping,  E::all_ended,         A::decide,         stopping},
        {stopping,  E::restart_granted,   A::pause,          pausing},
        {stopping,  E::restart_refused,   A::finish,         over},

        {pausing,   E::hello,             A::refuse,         pausing},
        {pausing,   E::agent_signalled,   A::abort,          over},
        {pausing,   E::ended_node_lost,   A::abort,          over},
        {pausing,   E::pause_over,        A::start_round,    running},

        {over,      E::hello,             A::refuse,         over},
        {over,      E::goodbye,           A::release,        over},
    };
    // clang-format on
};
static_assert(is_unambiguous(CoordinatorTable::kRows));

// Not the coordinator's own messages.
struct EventOf {
    using E = CoordinatorEvent;
    std::optional<E> operator()(const Hello&) const { return E::hello; }
    std::optional<E> operator()(const WorkerFailed&) const { return E::worker_failed; }
    std::optional<E> operator()(const WorkerDying&) const { return E::worker_dying; }
    std::optional<E> operator()(const AgentSignalled&) const { return E::agent_signalled; }
    std::optional<E> operator()(const NoticeSignal&) const { return E::notice_signal; }
    std::optional<E> operator()(const RankEnds&) const { return E::rank_ends; }
    std::optional<E> operator()(const WorkersSucceeded&) const { return E::workers_succeeded; }
    std::optional<E> operator()(const WorkersGone&) const { return E::workers_gone; }
    std::optional<E> operator()(const Goodbye&) const { return E::goodbye; }
    template <typename Other>
    std::optional<E> operator()(const Other&) const {
        return std::nullopt;
    }
};

}  // namespace

CoordinatorStep next_step(CoordinatorState state, CoordinatorEvent event) {
    const auto* row = find_transition(CoordinatorTable::kRows, state, event);
    return row == nullptr ? CoordinatorStep{.next = state} : CoordinatorStep{row->action, row->next};
}

std::optional<CoordinatorEvent> event_of(const ControlMessage& message) {
    return std::visit(EventOf{}, message);
}

std::optional<int> round_of(const ControlMessage& message) {
    return std::visit(
        [](const auto& one) -> std::optional<int> {
            if constexpr (requires { one.round; }) return one.round;
            return std::nullopt;
        },
        message);
}

}  // namespace ddprun
