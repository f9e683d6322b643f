#include "launcher/agent/agent_machine.hpp"

#include <array>
#include <initializer_list>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using A = AgentAction;
using E = AgentEvent;
using S = AgentState;

struct Step {
    E event;
    A action;
    S next;
};

void walk(std::initializer_list<Step> steps) {
    AgentMachine machine;
    for (const Step& step : steps) {
        INFO(to_text(machine.state()) << " + " << to_text(step.event));
        CHECK(machine.handle(step.event) == step.action);
        CHECK(machine.state() == step.next);
    }
}

std::vector<E> all_events() {
    std::vector<E> events;
    for (int i = 0; i < kAgentEvents; ++i) events.push_back(static_cast<E>(i));
    return events;
}

// What an agent that leaves hears, if nobody disturbs it.
const std::vector<E> kEnd = {E::refused, E::output_shown, E::reported, E::goodbye_said, E::others_left};

}  // namespace

TEST_CASE("the lives of an agent") {
    SECTION("all is well") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::finish_ordered, A::leave, S::draining_output},
              {E::output_shown, A::report, S::reporting},
              {E::reported, A::await_goodbye, S::saying_goodbye},
              {E::goodbye_said, A::await_others, S::awaiting_others},
              {E::others_left, A::end, S::done}});
    }
    SECTION("the coordinator is not there yet, or restarts while nodes gather") {
        walk({{E::connection_lost, A::join_again, S::joining},
              {E::round_ready, A::start_workers, S::running}});
    }
    SECTION("not admitted, or nobody came") { walk({{E::refused, A::leave, S::draining_output}}); }
    SECTION("a signal before the round") { walk({{E::signal_received, A::leave, S::draining_output}}); }
    SECTION("a worker here fails first") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::worker_failed, A::report_failure, S::stopping},
              {E::stop_ordered, A::none, S::stopping},
              {E::worker_failed, A::none, S::stopping},
              {E::workers_gone, A::report_gone, S::leaving},
              {E::finish_ordered, A::leave, S::draining_output}});
    }
    SECTION("a worker elsewhere fails first") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::stop_ordered, A::stop_workers, S::stopping},
              {E::workers_gone, A::report_gone, S::leaving},
              {E::finish_ordered, A::leave, S::draining_output}});
    }
    SECTION("a failure is followed by another round") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::worker_failed, A::report_failure, S::stopping},
              {E::workers_gone, A::report_gone, S::leaving},
              {E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::finish_ordered, A::leave, S::draining_output}});
    }
    SECTION("a signal between two rounds, or when all is done here, is the coordinator's business") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::stop_ordered, A::stop_workers, S::stopping},
              {E::workers_gone, A::report_gone, S::leaving},
              {E::signal_received, A::tell_signal, S::leaving},
              {E::finish_ordered, A::leave, S::draining_output}});
        walk({{E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::signal_received, A::tell_signal, S::draining},
              {E::stop_ordered, A::report_gone, S::leaving}});
        walk({{E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::signal_received, A::tell_signal, S::draining},
              {E::finish_timed_out, A::leave, S::draining_output}});
    }
    SECTION("a worker elsewhere fails when all is done here") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::stop_ordered, A::report_gone, S::leaving},
              {E::finish_ordered, A::leave, S::draining_output}});
    }
    SECTION("a signal is forwarded once; a user who does not want to wait ends the grace") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::signal_received, A::report_signal, S::stopping},
              {E::signal_received, A::tell_signal, S::stopping},
              {E::interrupted_again, A::kill_workers, S::stopping},
              {E::workers_gone, A::report_gone, S::leaving},
              {E::finish_timed_out, A::leave, S::draining_output}});
    }
}

TEST_CASE("an agent whose own coordinator fails under a round ends its workers and goes, wherever it is") {
    walk({{E::round_ready, A::start_workers, S::running},
          {E::refused, A::stop_workers, S::stopping_alone},
          {E::workers_gone, A::leave, S::draining_output}});
    walk({{E::round_ready, A::start_workers, S::running},
          {E::worker_failed, A::report_failure, S::stopping},
          {E::refused, A::none, S::stopping_alone},
          {E::workers_gone, A::leave, S::draining_output}});
    walk({{E::round_ready, A::start_workers, S::running},
          {E::workers_succeeded, A::report_success, S::draining},
          {E::refused, A::leave, S::draining_output}});
    walk({{E::round_ready, A::start_workers, S::running},
          {E::stop_ordered, A::stop_workers, S::stopping},
          {E::workers_gone, A::report_gone, S::leaving},
          {E::refused, A::leave, S::draining_output}});
}

TEST_CASE("an agent goes on when a node has come, or this one has a place") {
    walk({{E::round_ready, A::start_workers, S::running},
          {E::stop_ordered, A::stop_workers, S::stopping},
          {E::workers_gone, A::report_gone, S::leaving},
          {E::place_awaited, A::await_place, S::rejoining},
          {E::place_awaited, A::none, S::rejoining},
          {E::reminder_due, A::remind, S::rejoining},
          {E::round_ready, A::start_workers, S::running},
          {E::stop_ordered, A::stop_workers, S::stopping},
          {E::workers_gone, A::report_gone, S::leaving},
          {E::place_awaited, A::await_place, S::rejoining},
          {E::signal_received, A::tell_signal, S::rejoining},
          {E::finish_ordered, A::leave, S::draining_output}});
    walk({{E::place_awaited, A::none, S::joining}, {E::finish_ordered, A::leave, S::draining_output}});
}

TEST_CASE("an agent that waits for a place finds the next coordinator as a newcomer does") {
    walk({{E::round_ready, A::start_workers, S::running},
          {E::leader_lost, A::stop_workers, S::stopping_leaderless},
          {E::workers_gone, A::none, S::seeking},
          {E::place_awaited, A::await_place, S::rejoining},
          {E::place_lost, A::join_again, S::rejoining},
          {E::place_lost, A::join_again, S::rejoining},
          {E::round_ready, A::start_workers, S::running},
          {E::leader_lost, A::stop_workers, S::stopping_leaderless},
          {E::workers_gone, A::none, S::seeking},
          {E::place_awaited, A::await_place, S::rejoining},
          {E::place_lost, A::join_again, S::rejoining},
          {E::refused, A::leave, S::draining_output}});
}

TEST_CASE("the lives of an agent that loses its coordinator") {
    SECTION("under running workers") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::connection_lost, A::stop_workers, S::stopping_alone},
              {E::workers_gone, A::leave, S::draining_output}});
    }
    SECTION("while workers stop, or when they are gone") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::worker_failed, A::report_failure, S::stopping},
              {E::connection_lost, A::none, S::stopping_alone},
              {E::interrupted_again, A::kill_workers, S::stopping_alone},
              {E::workers_gone, A::leave, S::draining_output}});
        walk({{E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::connection_lost, A::leave, S::draining_output}});
    }
}

TEST_CASE("the end goes its way, once, whatever else happens") {
    walk({{E::refused, A::leave, S::draining_output},
          {E::others_left, A::none, S::draining_output},  // nobody waits for them yet
          {E::signal_received, A::none, S::draining_output},
          {E::interrupted_again, A::report, S::reporting},  // nobody reads the output
          {E::output_shown, A::none, S::reporting},
          {E::reported, A::await_goodbye, S::saying_goodbye},
          {E::interrupted_again, A::none, S::saying_goodbye},
          {E::goodbye_said, A::await_others, S::awaiting_others},
          {E::signal_received, A::none, S::awaiting_others},
          {E::others_left, A::end, S::done}});
}

TEST_CASE("the coordinator is lost, and another one takes over") {
    SECTION("while workers run") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::leader_lost, A::stop_workers, S::stopping_leaderless},
              {E::worker_failed, A::none, S::stopping_leaderless},
              {E::led, A::none, S::stopping},
              {E::leader_lost, A::none, S::stopping_leaderless},
              {E::workers_gone, A::none, S::seeking},
              {E::led, A::report_gone, S::leaving},
              {E::leader_lost, A::none, S::seeking},
              {E::place_awaited, A::await_place, S::rejoining},
              {E::leader_lost, A::none, S::seeking},
              {E::led, A::report_gone, S::leaving},
              {E::round_ready, A::start_workers, S::running}});
    }
    SECTION("when they have succeeded here, and nobody leads") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::workers_succeeded, A::report_success, S::draining},
              {E::leader_lost, A::none, S::seeking},
              {E::connection_lost, A::leave, S::draining_output}});
    }
    SECTION("nobody leads, while they end") {
        walk({{E::round_ready, A::start_workers, S::running},
              {E::leader_lost, A::stop_workers, S::stopping_leaderless},
              {E::interrupted_again, A::kill_workers, S::stopping_leaderless},
              {E::connection_lost, A::none, S::stopping_alone},
              {E::workers_gone, A::leave, S::draining_output}});
    }
}

TEST_CASE("an agent that waits for long says so again and again") {
    walk({{E::reminder_due, A::remind, S::joining},
          {E::reminder_due, A::remind, S::joining},
          {E::round_ready, A::start_workers, S::running},
          {E::reminder_due, A::none, S::running}});
}

TEST_CASE("a transition in words") {
    CHECK(transition_text(S::running, E::worker_failed, S::stopping) ==
          "running -> stopping by worker_failed");
    CHECK(transition_text(S::running, E::worker_failed, S::running).empty());
    CHECK(transition_text(S::draining_output, E::output_shown, S::reporting).empty());
}

TEST_CASE("done is done") {
    AgentMachine machine;
    for (E event : kEnd) machine.handle(event);
    for (E event : all_events()) {
        CHECK(machine.handle(event) == A::none);
        CHECK(machine.state() == S::done);
    }
}

TEST_CASE("whatever happened before: workers that run are stopped, and the agent can end") {
    // All sequences of up to four events, then what the world still owes the agent.
    struct Walker {
        AgentMachine machine;
        bool started = false, stopped = false;

        void take(E event) {
            switch (machine.handle(event)) {
                case A::start_workers:
                    CHECK((!started || stopped));
                    started = true;
                    stopped = false;
                    break;
                case A::report_failure:
                case A::report_signal:
                case A::stop_workers:
                case A::kill_workers:
                case A::report_success:  // they have ended
                case A::report_gone: stopped = true; break;
                case A::leave: CHECK(machine.state() == S::draining_output); break;
                case A::end: CHECK(machine.state() == S::done); break;
                case A::report:
                case A::await_goodbye:
                case A::await_others:
                case A::none:
                case A::join_again:
                case A::await_place:
                case A::remind:
                case A::tell_signal: break;
            }
        }
    };
    const auto events = all_events();
    for (E a : events) {
        for (E b : events) {
            for (E c : events) {
                for (E d : events) {
                    Walker walker;
                    for (E event : {a, b, c, d}) walker.take(event);
                    if (walker.machine.state() == S::stopping ||
                        walker.machine.state() == S::stopping_alone) {
                        CHECK(walker.stopped);
                    }
                    if (walker.machine.state() == S::joining) CHECK_FALSE(walker.started);
                    for (E event : {E::connection_lost, E::workers_gone}) walker.take(event);
                    for (E event : kEnd) walker.take(event);
                    CHECK(walker.machine.state() == S::done);
                }
            }
        }
    }
}

}  // namespace ddprun
