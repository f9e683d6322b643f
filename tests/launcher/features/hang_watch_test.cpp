#include "launcher/features/hang_watch.hpp"

#include <boost/asio/io_context.hpp>
#include <variant>

#include "launcher/output/launcher_log.hpp"
#include "launcher/verdict/observation_text.hpp"
#include "launcher/view/routes.hpp"
#include "launcher/watch/shared_looks.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

HangWatchOptions watch_of(HangAction action) {
    return {.limit = 1s, .start = 1s, .action = action, .text = "1"};
}

// Node 0 of two, without workers of its own; the other node is played.
struct WatchedJob {
    explicit WatchedJob(HangAction action, bool has_secret = true) {
        agent.given.features.of<HangWatchOptions>() = watch_of(action);
        agent.given.features.of<SharedLooksOptions>().shared = shared;
        if (has_secret) agent.given.key = SecretKey::fresh();
        agent.now = {.group_world_size = 2, .world_size = 2, .workers = {}};
        shared->begin(agent);
        watch = make_hang_watch(inputs);
        watch->began(agent);
        watch->learnt(StateChanged{AgentState::joining, AgentEvent::round_ready, AgentState::running});
        watch->workers_run({.round = 3, .group_world_size = 2, .world_size = 2});
    }
    ~WatchedJob() {
        watch->agent_leaves();
        shared->end();
    }

    // Until the other node is asked this.
    Question asked(std::string_view kind) {
        for (;;) {
            for (const ControlMessage& message : std::exchange(agent.sent, {})) {
                const auto* question = std::get_if<Question>(&message);
                if (question != nullptr && question->kind == kind) return *question;
                if (question == nullptr) others.push_back(message);
            }
            context.run_one();
        }
    }
    void answer(const Question& question, std::string text) {
        Answer answer{.id = question.id, .node = 1, .host = "gpu1", .first_rank = 0, .ranks = 2, .asked = 1};
        answer.text = std::move(text);
        shared->questions->hear(answer);
    }
    void answer_quiet(std::chrono::milliseconds quiet) {
        answer(asked(kQuietQuestion), to_json(QuietAnswer{quiet.count(), ProgressSign::traffic}));
    }
    // A rank that is stopped while another waits for it.
    void answer_stacks(const Question& question) {
        Observation stopped, waits;
        stopped.rank = 1;
        stopped.host = "gpu1";
        stopped.pid = 77;
        stopped.node = waits.node = 1;
        stopped.wait.emplace().kind = WaitKind::stopped;
        waits.wait.emplace().kind = WaitKind::socket;
        waits.peers = {1};
        answer(question, to_json(std::vector{stopped, waits}));
    }

    boost::asio::io_context context;
    FakeAgent agent{context.get_executor()};
    std::shared_ptr<SharedLooks> shared = std::make_shared<SharedLooks>();
    LauncherLog log;
    FeatureInputs inputs{.options = agent.given, .log = log};
    std::unique_ptr<Feature> watch;
    std::vector<ControlMessage> others;  // that were sent
};

}  // namespace

TEST_CASE("hang watch: the failure is that of the first suspect, by the verdict's own words") {
    HangVerdict verdict{VerdictKind::hang, {3, 5}, {0}, "rank 3 sleeps", {}};
    Observation other, seen;
    seen.rank = 3;
    seen.pid = 42;
    const Failure failure = hang_failure(verdict, {other, seen}, 99);
    CHECK((failure.kind == Failure::Kind::hang && failure.rank == 3 && failure.pid == 42));
    CHECK((failure.exit_code == kExitOverdue && failure.message == "rank 3 sleeps"));
    CHECK(failure.unix_time_ms == 99);
    verdict.suspects.clear();
    CHECK(hang_failure(verdict, {seen}, 99).rank == -1);
    CHECK(hang_line(watch_of(HangAction::report), verdict, 31'900ms) ==
          "no progress for 31 s (--hang-timeout 1): rank 3 sleeps");
}

TEST_CASE("hang watch: a node says how long its own ranks have been quiet") {
    WatchedJob job(HangAction::report);
    std::optional<QuietAnswer> told;
    CHECK(job.watch->answer({.kind = std::string(kQuietQuestion)},
                            [&](const Answer& answer) { told = parse_quiet_answer(answer.text); }));
    REQUIRE(told);
    CHECK((told->quiet_ms >= 0 && !told->sign));
    CHECK_FALSE(job.watch->answer({.kind = "status"}, [](const Answer&) {}));
}

TEST_CASE("hang watch: what another node has done since is a sign, and only then ranks are not looked at") {
    WatchedJob job(HangAction::stop);
    job.answer_quiet(0ms);
    // That one counts: the budget has to be spent again, and the other node is asked again.
    job.answer_quiet(1h);
    job.answer_stacks(job.asked(kStacksQuestion));
    while (job.agent.count<HangFound>() == 0) job.context.run_one();
    const auto& found = std::get<HangFound>(job.agent.told.back());
    CHECK((found.verdict.kind == VerdictKind::hang && found.verdict.suspects == std::vector{1}));
    REQUIRE(job.agent.sent.size() == 1);
    const auto& failed = std::get<WorkerFailed>(job.agent.sent.back());
    CHECK((failed.round == 3 && failed.failure.rank == 1 && failed.failure.pid == 77));
    CHECK(job.shared->looks->known().quiet_since_unix_ms == found.since_unix_ms);
    CHECK(job.agent.said.back().starts_with("no progress for "));
}

TEST_CASE("hang watch: one that is reported only goes on, until a node has done something since") {
    WatchedJob job(HangAction::report);
    job.answer_quiet(1h);
    job.answer_stacks(job.asked(kStacksQuestion));
    while (job.agent.count<HangFound>() == 0) job.context.run_one();
    const auto told = Deadline::clock::now();
    CHECK(job.agent.sent.empty());
    job.answer_quiet(2h);
    CHECK(job.agent.count<HangOver>() == 0);
    // Before it was told of, and within the budget of 1 s that was spent then.
    job.answer_quiet(900ms + std::chrono::floor<std::chrono::milliseconds>(Deadline::clock::now() - told));
    CHECK(job.agent.count<HangOver>() == 0);
    job.answer_quiet(0ms);
    CHECK(job.agent.count<HangOver>() == 1);
    CHECK_FALSE(job.shared->looks->known().quiet_since_unix_ms);
    CHECK(job.agent.said.back().starts_with("the job gets on again, after "));
}

TEST_CASE("hang watch: without a secret the other node is not asked, which is said once") {
    WatchedJob job(HangAction::report, false);
    job.watch->workers_run({.round = 4, .group_world_size = 2, .world_size = 2});
    CHECK(job.agent.said.size() == 1);
    while (job.agent.said.size() == 1) job.context.run_one();
    CHECK(job.agent.said.back().starts_with("no progress, but no hang"));
    CHECK(job.agent.sent.empty());
}

}  // namespace ddprun
