#include "launcher/agent/job_knowledge.hpp"

#include <csignal>

#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/machine.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using A = AgentAction;
using E = AgentEvent;
using S = AgentState;

Failure cause_of(Failure::Kind kind, int rank, int signal = 0) {
    Failure failure{.kind = kind, .host = "gpu1"};
    failure.rank = rank;
    failure.exit_code = 7;
    failure.signal = signal;
    return failure;
}

const Failure kWorker = cause_of(Failure::Kind::worker_failed, 3);
const Failure kSignal = cause_of(Failure::Kind::signalled, -1, SIGINT);

}  // namespace

TEST_CASE("texts that become the workers' are harmless from the beginning") {
    JobKnowledge job(0);
    RoundReady ready{.job_id = std::string("run\0\x1b]0;title\a-1", 16),
                     .restart_reason = "gpu\xe2\x80\xae\xff\n"};
    job.learn(ready);
    CHECK(job.round().job_id == "run?-1");
    CHECK(job.round().restart_reason == "gpu?\xef\xbf\xbd?");
    ready.job_id = std::string(2000, 'x') + "-1";
    job.learn(ready);
    CHECK(job.round().job_id == ready.job_id);
}

TEST_CASE("what the coordinator's messages are to the machine") {
    JobKnowledge job(0);
    CHECK(job.learn(RoundReady{}) == E::round_ready);
    CHECK(job.learn(Refused{}) == E::refused);
    CHECK(job.learn(Stop{0, kWorker}) == E::stop_ordered);
    CHECK(job.learn(Finish{}) == E::finish_ordered);
    CHECK(job.learn(Waiting{}) == E::place_awaited);
    CHECK(job.learn(Parked{}) == E::place_awaited);
    for (const ControlMessage& message :
         {ControlMessage(PeerRefused{}), ControlMessage(PeerDying{}), ControlMessage(Restarting{}),
          ControlMessage(RankEnds{}), ControlMessage(NoticeSignal{}), ControlMessage(WhoRuns{}),
          ControlMessage(Remark{})})
        CHECK_FALSE(job.learn(message));
}

TEST_CASE("the first signal counts, and impatience is a hurry from then on") {
    JobKnowledge job(0);
    CHECK(job.learn_signal(SIGTERM, false) == E::signal_received);
    CHECK(job.learn_signal(SIGINT, false) == E::signal_received);
    CHECK(job.learn_signal(SIGHUP, false) == E::signal_received);
    CHECK_FALSE(job.is_hurried());
    CHECK(job.learn_signal(SIGINT, true) == E::interrupted_again);
    CHECK(job.learn_signal(SIGTERM, false) == E::interrupted_again);
    CHECK(job.is_hurried());
    CHECK(job.signal() == SIGTERM);
}

TEST_CASE("what is said of a signal: who ends by which one, until when, and what another Ctrl-C does") {
    const std::string once = "stopping 4 ranks by SIGINT, up to 30 s (--grace)";
    const std::string again = "; Ctrl-C again in a second or later ends it now";
    const std::string part = "; Ctrl-C again in a second or later ends this node's part now";
    JobKnowledge job(0);
    LaunchOptions options;
    options.workers.resize(2);
    CHECK(job.notice_of(SIGINT, S::joining, options).empty());
    job.learn(RoundReady{.group_world_size = 2, .world_size = 4});
    const auto said = [&](int signal, AgentState state = S::running) {
        return job.notice_of(signal, state, options);
    };
    SECTION("at once") {
        CHECK(said(SIGINT) == once + again);
        CHECK(said(SIGINT, S::draining) == once + again);
        CHECK(said(SIGTERM) == "stopping 4 ranks by SIGTERM, up to 30 s (--grace)");
        for (const S state : {S::joining, S::rejoining, S::seeking, S::leaving, S::draining_output})
            CHECK(said(SIGINT, state).empty());
    }
    SECTION("they end already") {
        CHECK(said(SIGINT, S::stopping) == "stopping 4 ranks, up to 30 s (--grace)" + again);
        CHECK(said(SIGHUP, S::stopping_leaderless) == "stopping 4 ranks, up to 30 s (--grace)");
    }
    SECTION("they end already by another node's signal") {
        job.learn(Stop{0, kSignal});
        CHECK(said(SIGTERM, S::stopping) == once);
    }
    SECTION("no word about other nodes comes any more") {
        CHECK(said(SIGTERM, S::stopping_alone) == "stopping 2 ranks of this node, up to 30 s (--grace)");
    }
    SECTION("once; but how it is ended now, when that applies") {
        job.learn_signal(SIGTERM, false);
        CHECK(said(SIGTERM, S::stopping).empty());
        CHECK(said(SIGQUIT, S::stopping).empty());
        CHECK(said(SIGINT, S::stopping) == "stopping 4 ranks, up to 30 s (--grace)" + again);
        job.learn_signal(SIGINT, false);
        CHECK(said(SIGINT, S::stopping).empty());
    }
    SECTION("one of several nodes") {
        options.nnodes = 2;
        CHECK(said(SIGINT) == once + part);
        options.elasticity.min_nodes = 1;
        CHECK(said(SIGINT) == "stopping 2 ranks of this node by SIGINT, up to 30 s (--grace)" + part);
        options.workers.resize(1);
        CHECK(said(SIGTERM) == "stopping 1 rank of this node by SIGTERM, up to 30 s (--grace)");
        options.workers.clear();
        CHECK(said(SIGTERM).empty());
    }
    SECTION("nodes that are all sent what one screen is sent") {
        options.nnodes = 2;
        options.is_started = true;
        CHECK(said(SIGINT) == once + again);
        options.is_started = false;
        options.shares_screen = true;
        CHECK(said(SIGINT) == once + again);
        options.node_rank = 1;
        CHECK(said(SIGINT).empty());
    }
    SECTION("there is no grace") {
        options.grace_period = {};
        CHECK(said(SIGINT).empty());
    }
}

TEST_CASE(
    "workers are stopped by the signal of one agent, else by SIGTERM, and for the reason that is known") {
    JobKnowledge job(0);
    CHECK(job.stop_signal() == SIGTERM);
    CHECK(job.stop_reason().empty());
    job.learn_signal(SIGHUP, false);
    CHECK(job.stop_reason() == ": asked to by " + signal_text(SIGHUP));
    job.learn_failure(kWorker);
    CHECK_THAT(job.stop_reason(), Catch::StartsWith(": rank 3 on node 0 (gpu1): exit code 7"));
    CHECK(job.stop_signal() == SIGTERM);
    job.learn(Stop{0, kSignal});
    CHECK(job.stop_signal() == SIGINT);
    CHECK_THAT(job.stop_reason(), Catch::StartsWith(": signal 2 to the agent of"));
    CHECK(job.stop_cause(SIGINT).failure == kSignal);
    job.learn(RoundReady{.round = 1});
    CHECK(job.stop_signal() == SIGTERM);
}

TEST_CASE("features are told of a stop what is known") {
    JobKnowledge job(0);
    const StopCause none = job.stop_cause(SIGTERM);
    CHECK(none.signal == SIGTERM);
    CHECK_FALSE(none.failure);
    CHECK(none.received == 0);
    job.learn_time_is_over("time is over");
    CHECK(job.stop_cause(SIGTERM).received == SIGTERM);
    CHECK(job.stop_cause(SIGTERM).reason == "time is over");
    job.learn_failure(kWorker);
    CHECK(job.stop_cause(SIGTERM).failure == kWorker);
}

TEST_CASE("a time limit acts as SIGTERM does, and says that nobody has sent one") {
    JobKnowledge job(0);
    job.learn(RoundReady{.round = 4});
    CHECK(job.learn_time_is_over("time is over") == E::signal_received);
    CHECK(job.signal() == SIGTERM);
    CHECK(job.stop_reason() == ": time is over");
    CHECK(job.message_for(A::report_signal) == ControlMessage(AgentSignalled{4, SIGTERM, "time is over"}));
    Failure cause = cause_of(Failure::Kind::signalled, -1, SIGTERM);
    cause.message = "time is over";
    job.learn(Stop{4, cause});
    CHECK(job.stop_reason() == ": time is over");
    CHECK(job.stop_signal() == SIGTERM);
    SECTION("once there is a reason, a signal is none") {
        job.learn_signal(SIGINT, false);
        CHECK(job.ending().signal_reason == "time is over");
        CHECK(job.signal() == SIGTERM);
    }
    SECTION("nor the other way round") {
        JobKnowledge signalled(0);
        signalled.learn_signal(SIGINT, false);
        signalled.learn_time_is_over("time is over");
        CHECK(signalled.message_for(A::tell_signal) == ControlMessage(AgentSignalled{0, SIGINT, ""}));
    }
}

TEST_CASE("what the coordinator is told") {
    JobKnowledge job(0);
    job.learn(RoundReady{.round = 4});
    job.learn_failure(kWorker);
    job.learn_signal(SIGTERM, false);
    CHECK(job.message_for(A::report_success) == ControlMessage(WorkersSucceeded{4}));
    CHECK(job.message_for(A::report_failure) == ControlMessage(WorkerFailed{4, kWorker}));
    CHECK(job.message_for(A::report_signal) == ControlMessage(AgentSignalled{4, SIGTERM, ""}));
    CHECK(job.message_for(A::tell_signal) == ControlMessage(AgentSignalled{4, SIGTERM, ""}));
    for (const A action : {A::none, A::start_workers, A::kill_workers, A::leave, A::report, A::end})
        CHECK_FALSE(job.message_for(action));
}

TEST_CASE("the ending has the coordinator's cause, or else this node's own") {
    JobKnowledge job(55);
    CHECK_FALSE(job.ending().joined);
    CHECK_FALSE(job.has_last_word());
    job.learn(RoundReady{.round = 1});
    CHECK(job.ending().joined);
    CHECK(job.ending().start_unix_ms == 55);
    CHECK_FALSE(job.ending().first_failure);
    job.learn_failure(kWorker);
    CHECK(job.ending().first_failure == kWorker);
    SECTION("the coordinator is lost") {
        job.learn_loss({.cause = "no answer"}, {});
        CHECK(job.ending().first_failure->kind == Failure::Kind::node_lost);
        CHECK(job.ending().first_failure->message == "no answer");
        CHECK(job.ending().first_failure->exit_code == kExitUnavailable);
        CHECK_FALSE(job.has_last_word());
    }
    SECTION("the lost node is the coordinator's, or this one where it stood still itself") {
        LaunchOptions options;
        options.node_rank = 3;
        options.master.host = "node-a";
        job.learn(RoundReady{.round = 2, .coordinator_rank = 1});
        SECTION("the coordinator's") {
            CHECK(job.learn_loss({.kind = CoordinatorLoss::Kind::leaderless, .cause = "nobody"}, options));
            CHECK(job.ending().first_failure->node_rank == 1);
            CHECK(job.ending().first_failure->host == "node-a");
            CHECK(job.ending().no_successor == "nobody");
            CHECK_FALSE(job.learn_loss({.cause = "no answer"}, options));
            CHECK(job.ending().first_failure->message == "nobody");
        }
        SECTION("this one") {
            CHECK(job.learn_loss({.kind = CoordinatorLoss::Kind::given_up, .cause = "stood still"}, options));
            CHECK(job.ending().first_failure->node_rank == 3);
            CHECK(job.ending().first_failure->host == host_name());
            CHECK(job.ending().no_successor.empty());
        }
    }
    SECTION("the coordinator is lost after it has named the cause") {
        job.learn(Stop{1, kSignal});
        job.learn_loss({.cause = "no answer"}, {});
        CHECK(job.ending().first_failure == kSignal);
    }
    SECTION("the last word") {
        job.learn(RankEnds{1, {RankEnd{.rank = 0}, RankEnd{.rank = 1}}});
        job.learn(RankEnds{1, {RankEnd{.rank = 2}}});
        job.learn(Finish{.exit_code = 7});
        CHECK(job.has_last_word());
        CHECK(job.ending().finish->exit_code == 7);
        CHECK(job.ending().ranks.size() == 3);
    }
}

TEST_CASE("how 100,000 ranks ended goes into the result") {
    constexpr int kRanks = 100'000;
    JobKnowledge job(0);
    RankEnds some{1, {}};
    for (int rank = 0; rank < kRanks; ++rank) {
        some.ends.push_back({.rank = rank, .node_rank = rank / 8, .host = "gpu07"});
        if (some.ends.size() < kMaxEndsInMessage && rank + 1 < kRanks) continue;
        job.learn(some);
        some.ends.clear();
    }
    job.learn(Finish{.succeeded = kRanks});
    const std::string text = to_json(job.ending());
    CHECK(static_cast<int>(job.ending().ranks.size()) == kRanks);
    CHECK_THAT(text, Catch::Contains("\"rank\": 99999") || Catch::Contains("\"rank\":99999"));
}

TEST_CASE("the status is of the last round") {
    JobKnowledge job(0);
    RoundReady round{.round = 2, .job_id = "none-1f"};
    round.world_size = 8;
    job.learn(round);
    const AgentStatus status = job.status(AgentState::running, {WorkerStatus{.rank = 5}});
    CHECK(status.state == "running");
    CHECK(status.job_id == "none-1f");
    CHECK(status.round == 2);
    CHECK(status.world_size == 8);
    CHECK(status.workers.size() == 1);
}

}  // namespace ddprun
