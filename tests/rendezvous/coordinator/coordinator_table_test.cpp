#include "rendezvous/coordinator/coordinator_table.hpp"

#include <initializer_list>
#include <set>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using A = CoordinatorAction;
using E = CoordinatorEvent;
using S = CoordinatorState;

struct Step {
    E event;
    A action;
    S next;
};

void walk(std::initializer_list<Step> steps, S state = S::gathering) {
    for (const Step& expected : steps) {
        INFO("state " << static_cast<int>(state) << ", event " << static_cast<int>(expected.event));
        const CoordinatorStep step = next_step(state, expected.event);
        CHECK(step.action == expected.action);
        CHECK(step.next == expected.next);
        state = step.next;
    }
}

std::set<S> reachable_from(S start) {
    std::set<S> seen;
    std::vector<S> ahead{start};
    while (!ahead.empty()) {
        const S state = ahead.back();
        ahead.pop_back();
        if (!seen.insert(state).second) continue;
        for (int event = 0; event < kCoordinatorEvents; ++event)
            ahead.push_back(next_step(state, static_cast<E>(event)).next);
    }
    return seen;
}

}  // namespace

TEST_CASE("the lives of a job") {
    SECTION("all is well") {
        walk({{E::hello, A::admit, S::gathering},
              {E::all_joined, A::start_round, S::running},
              {E::workers_succeeded, A::node_succeeded, S::running},
              {E::ended_node_lost, A::none, S::running},
              {E::all_ended, A::finish, S::over},
              {E::goodbye, A::release, S::over}});
    }
    SECTION("ranks run on when others have ended") {
        walk({{E::all_joined, A::start_round, S::running},
              {E::rank_succeeded, A::begin_exit_wait, S::running},
              {E::exit_wait_due, A::exit_wait_due, S::running},
              {E::still_running, A::note_running, S::running},
              {E::overdue, A::stop_overdue, S::stopping},
              {E::still_running, A::none, S::stopping},
              {E::workers_gone, A::node_gone, S::stopping}});
    }
    SECTION("nodes are missing") {
        walk({{E::node_lost, A::forget, S::gathering},
              {E::status_due, A::tell_waiting, S::gathering},
              {E::join_timed_out, A::give_up, S::over},
              {E::hello, A::refuse, S::over}});
    }
    SECTION("the nodes differ, and must not") {
        walk({{E::hello, A::admit, S::gathering},
              {E::nodes_unfit, A::refuse_all, S::over},
              {E::hello, A::refuse, S::over}});
    }
    SECTION("a failure, and another round") {
        walk({{E::all_joined, A::start_round, S::running},
              {E::worker_dying, A::suspect, S::running},
              {E::worker_failed, A::stop_all, S::stopping},
              {E::worker_failed, A::contend, S::stopping},
              {E::workers_gone, A::node_gone, S::stopping},
              {E::all_ended, A::decide, S::stopping},
              {E::restart_granted, A::pause, S::pausing},
              {E::pause_over, A::begin_again, S::pausing},
              {E::all_joined, A::start_round, S::running}});
    }
    SECTION("a failure, and a program that is asked about it") {
        walk({{E::all_joined, A::start_round, S::running},
              {E::worker_failed, A::stop_all, S::stopping},
              {E::all_ended, A::decide, S::stopping},
              {E::judgement_wanted, A::ask_judge, S::judging},
              {E::node_lost, A::none, S::judging},
              {E::judged, A::settle, S::judging},
              {E::restart_granted, A::pause, S::pausing},
              {E::judged, A::none, S::pausing}});
        walk({{E::all_joined, A::start_round, S::running},
              {E::worker_failed, A::stop_all, S::stopping},
              {E::judgement_wanted, A::ask_judge, S::judging},
              {E::judgement_overdue, A::settle, S::judging},
              {E::restart_refused, A::finish, S::over}});
        walk({{E::all_joined, A::start_round, S::running},
              {E::worker_failed, A::stop_all, S::stopping},
              {E::judgement_wanted, A::ask_judge, S::judging},
              {E::agent_signalled, A::abort, S::over}});
    }
    SECTION("a signal during the pause ends the job") {
        walk({{E::all_joined, A::start_round, S::running},
              {E::node_lost, A::stop_all, S::stopping},
              {E::restart_granted, A::pause, S::pausing},
              {E::agent_signalled, A::abort, S::over}});
    }
}

TEST_CASE("the lives of a job whose nodes come and go") {
    SECTION("a node comes, and the round ends for it") {
        walk({{E::last_call_over, A::start_round, S::running},
              {E::hello, A::enqueue, S::running},
              {E::resize_due, A::resize, S::stopping},
              {E::hello, A::enqueue, S::stopping},
              {E::workers_gone, A::node_gone, S::stopping},
              {E::restart_granted, A::pause, S::pausing},
              {E::pause_over, A::begin_again, S::pausing},
              {E::all_joined, A::start_round, S::running}});
    }
    SECTION("a coordinator takes over") {
        walk({{E::hello, A::admit_follower, S::electing},
              {E::follows, A::note_follower, S::electing},
              {E::ended_node_lost, A::forget_follower, S::electing},
              {E::elected, A::take_over, S::stopping},
              {E::all_ended, A::decide, S::stopping},
              {E::was_decided, A::go_on_pausing, S::pausing},
              {E::pause_over, A::begin_again, S::pausing},
              {E::host_leaves, A::step_down, S::over}},
             S::electing);
        walk({{E::election_over, A::step_down, S::over}}, S::electing);
        walk({{E::all_joined, A::start_round, S::running},
              {E::job_moved, A::tell_other_group, S::running},
              {E::quorum_lost, A::stop_all, S::stopping},
              {E::restart_refused, A::finish, S::over}});
        walk({{E::job_moved, A::move, S::moved}, {E::hello, A::redirect, S::moved}});
    }
    SECTION("a node is lost, and waited for") {
        walk({{E::all_joined, A::start_round, S::running},
              {E::node_lost, A::stop_all, S::stopping},
              {E::restart_granted, A::pause, S::pausing},
              {E::ended_node_lost, A::none, S::pausing},
              {E::pause_over, A::begin_again, S::pausing},
              {E::nodes_missing, A::await_return, S::awaiting_return},
              {E::status_due, A::tell_waiting, S::awaiting_return},
              {E::hello, A::enqueue, S::awaiting_return},
              {E::grace_runs, A::none, S::pausing},
              {E::nodes_missing, A::await_return, S::awaiting_return},
              {E::all_joined, A::start_round, S::running}});
        walk({{E::all_joined, A::start_round, S::running},
              {E::node_leaves, A::stop_all, S::stopping},
              {E::node_leaves, A::note_leaving, S::stopping},
              {E::restart_granted, A::pause, S::pausing},
              {E::node_leaves, A::note_leaving, S::pausing},
              {E::nodes_missing, A::await_return, S::awaiting_return},
              {E::join_timed_out, A::finish, S::over}});
    }
}

TEST_CASE("a job can end from every state, and what is over stays over") {
    for (int state = 0; state < kCoordinatorStates; ++state) {
        const auto seen = reachable_from(static_cast<S>(state));
        // Where the job is moved is told as long as there is somebody to tell.
        CHECK(seen.contains(S::over) == (static_cast<S>(state) != S::moved));
        CHECK(seen.contains(S::gathering) == (static_cast<S>(state) == S::gathering));
        CHECK(seen.contains(S::electing) == (static_cast<S>(state) == S::electing));
    }
    CHECK(reachable_from(S::over).size() == 1);
}

TEST_CASE("what agents may say is an event, and belongs to a round where it is about one") {
    CHECK(event_of(Hello{}) == E::hello);
    CHECK(event_of(WorkersGone{}) == E::workers_gone);
    CHECK(event_of(Judgement{}) == E::judged);
    CHECK(event_of(Goodbye{}) == E::goodbye);
    CHECK_FALSE(event_of(JudgeFailure{}));
    CHECK_FALSE(event_of(Finish{}));
    CHECK_FALSE(event_of(Stop{}));
    CHECK(round_of(WorkerFailed{.round = 3, .failure = {}}) == 3);
    CHECK(round_of(AgentSignalled{.round = 2, .signal = 15}) == 2);
    CHECK_FALSE(round_of(Hello{}));
    CHECK_FALSE(round_of(Goodbye{}));
}

}  // namespace ddprun
