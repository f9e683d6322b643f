#include "launcher/agent/agent_machine.hpp"

#include <array>

namespace ddprun {
namespace {

struct Cell {
    AgentAction action = AgentAction::none;
    AgentState next = AgentState::done;
};

using Row = std::array<Cell, kAgentEvents>;

// The columns are the events in the order of their enumeration.
constexpr std::array<Row, kAgentStates> make_table() {
    using A = AgentAction;
    using S = AgentState;
    constexpr Cell joining{A::none, S::joining}, running{A::none, S::running}, draining{A::none, S::draining},
        stopping{A::none, S::stopping}, alone{A::none, S::stopping_alone}, leaving{A::none, S::leaving},
        done{A::none, S::done};
    constexpr Cell out{A::leave, S::done};
    return {{
        // joining
        {{/* round_ready */ {A::start_workers, S::running}, /* refused */ out,
          /* connection_lost */ {A::join_again, S::joining}, /* workers_succeeded */ joining,
          /* worker_failed */ joining, /* workers_gone */ joining, /* stop_ordered */ joining,
          /* finish_ordered */ joining, /* signal_received */ out, /* interrupted_again */ out,
          /* finish_timed_out */ joining}},
        // running
        {{/* round_ready */ running, /* refused */ running,
          /* connection_lost */ {A::stop_workers, S::stopping_alone},
          /* workers_succeeded */ {A::report_success, S::draining},
          /* worker_failed */ {A::report_failure, S::stopping}, /* workers_gone */ running,
          /* stop_ordered */ {A::stop_workers, S::stopping}, /* finish_ordered */ running,
          /* signal_received */ {A::report_signal, S::stopping},
          /* interrupted_again */ {A::kill_workers, S::stopping},
          /* finish_timed_out */ running}},
        // draining
        {{/* round_ready */ draining, /* refused */ draining, /* connection_lost */ out,
          /* workers_succeeded */ draining, /* worker_failed */ draining, /* workers_gone */ draining,
          /* stop_ordered */ {A::report_gone, S::leaving}, /* finish_ordered */ {A::say_goodbye, S::done},
          /* signal_received */ {A::tell_signal, S::draining}, /* interrupted_again */ out,
          /* finish_timed_out */ out}},
        // stopping
        {{/* round_ready */ stopping, /* refused */ stopping, /* connection_lost */ alone,
          /* workers_succeeded */ stopping, /* worker_failed */ stopping,
          /* workers_gone */ {A::report_gone, S::leaving}, /* stop_ordered */ stopping,
          /* finish_ordered */ stopping,
          /* signal_received */ {A::tell_signal, S::stopping},
          /* interrupted_again */ {A::kill_workers, S::stopping},
          /* finish_timed_out */ stopping}},
        // stopping_alone
        {{/* round_ready */ alone, /* refused */ alone, /* connection_lost */ alone,
          /* workers_succeeded */ alone,
          /* worker_failed */ alone, /* workers_gone */ out, /* stop_ordered */ alone,
          /* finish_ordered */ alone,
          /* signal_received */ alone, /* interrupted_again */ {A::kill_workers, S::stopping_alone},
          /* finish_timed_out */ alone}},
        // leaving
        {{/* round_ready */ {A::start_workers, S::running}, /* refused */ leaving, /* connection_lost */ out,
          /* workers_succeeded */ leaving,
          /* worker_failed */ leaving, /* workers_gone */ leaving, /* stop_ordered */ leaving,
          /* finish_ordered */ {A::say_goodbye, S::done}, /* signal_received */ {A::tell_signal, S::leaving},
          /* interrupted_again */ out,
          /* finish_timed_out */ out}},
        // done
        {{done, done, done, done, done, done, done, done, done, done, done}},
    }};
}

constexpr auto kTable = make_table();

}  // namespace

AgentAction AgentMachine::handle(AgentEvent event) {
    const Cell& cell = kTable.at(static_cast<std::size_t>(state_)).at(static_cast<std::size_t>(event));
    state_ = cell.next;
    return cell.action;
}

std::string_view to_text(AgentState state) {
    switch (state) {
        case AgentState::joining: return "joining";
        case AgentState::running: return "running";
        case AgentState::draining: return "draining";
        case AgentState::stopping: return "stopping";
        case AgentState::stopping_alone: return "stopping_alone";
        case AgentState::leaving: return "leaving";
        case AgentState::done: return "done";
    }
    return "?";
}

std::string_view to_text(AgentEvent event) {
    switch (event) {
        case AgentEvent::round_ready: return "round_ready";
        case AgentEvent::refused: return "refused";
        case AgentEvent::connection_lost: return "connection_lost";
        case AgentEvent::workers_succeeded: return "workers_succeeded";
        case AgentEvent::worker_failed: return "worker_failed";
        case AgentEvent::workers_gone: return "workers_gone";
        case AgentEvent::stop_ordered: return "stop_ordered";
        case AgentEvent::finish_ordered: return "finish_ordered";
        case AgentEvent::signal_received: return "signal_received";
        case AgentEvent::interrupted_again: return "interrupted_again";
        case AgentEvent::finish_timed_out: return "finish_timed_out";
    }
    return "?";
}

}  // namespace ddprun
