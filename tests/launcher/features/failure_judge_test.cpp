#include "launcher/features/failure_judge.hpp"
#include "launcher/features/features.hpp"

#include "launcher/output/launcher_log.hpp"
#include "rendezvous/system/small_file.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Verdict = Judgement::Answer;

// A shell script that is asked.
struct Court {
    explicit Court(std::chrono::milliseconds timeout = FailureJudge::kOnFailureTimeout)
        : judge(context.get_executor(), runner, timeout) {}

    void ask(const std::string& script, std::string text = "{}") {
        program = folder.file("judge", "#!/bin/sh\n" + script, 0700);
        answer.reset();
        judge.ask({.program = program, .text = std::move(text), .environment = stub_spec({}).environment},
                  [this](const Judgement& judgement, const std::string& why) {
                      answer = judgement.answer;
                      trouble = why;
                  });
        CHECK_FALSE(answer);
    }
    void wait() {
        run_until(context, [this] { return answer.has_value(); });
    }

    boost::asio::io_context context{1};
    LocalRunner runner{context.get_executor()};
    FailureJudge judge;
    TemporaryFolder folder;
    std::string program;
    std::optional<Verdict> answer;
    std::string trouble;
};

}  // namespace

TEST_CASE("a program reads the question and answers, one after the other") {
    Court court;
    for (const auto& [text, expected] : {std::pair{"stop", Verdict::stop}, {"restart", Verdict::restart}}) {
        court.ask("cat\n", text);
        court.wait();
        CHECK(court.answer == expected);
        CHECK(court.trouble.empty());
    }
}

TEST_CASE("neither a long question nor a long answer holds anybody up") {
    Court court;
    court.ask("wc -c > $0.size; echo restart; yes | head -c 300000\n", std::string(1'000'000, 'x'));
    court.wait();
    CHECK(court.answer == Verdict::restart);
    std::string line(FailureJudge::kMaxAnswer, ' ');
    court.ask("printf '%" + std::to_string(FailureJudge::kMaxAnswer - 4) + "sstop\n' ''\n");
    court.wait();
    CHECK(court.answer == Verdict::stop);
    court.ask("printf '%" + std::to_string(FailureJudge::kMaxAnswer - 3) + "sstop\n' ''\n");
    court.wait();
    CHECK(court.answer == Verdict::none);
}

TEST_CASE("what is no answer has a reason") {
    const std::pair<std::string, std::string> rows[] = {
        {"exit 3\n", "ended by exit code 3"},
        {"kill -TERM $$\n", "ended by signal 15 (SIGTERM)"},
        {"echo stop; exit 1\n", "ended by exit code 1"},
        {":\n", "said nothing"},
        {"echo '\033[1mwhat?'\n", "said 'what?', not restart, stop or exclude NODE"}};
    Court court;
    for (const auto& [script, why] : rows) {
        court.ask(script);
        court.wait();
        CHECK(court.answer == Verdict::none);
        CHECK(court.trouble == why);
    }
    court.judge.ask({.program = "/no/such/file"}, [&](const Judgement& judgement, const std::string& why) {
        court.answer = judgement.answer;
        court.trouble = why;
    });
    court.answer.reset();
    court.wait();
    CHECK(court.trouble == "cannot start '/no/such/file': no such file");
}

TEST_CASE("a program that takes too long is killed with its process group") {
    Court court(100ms);
    court.ask("trap '' TERM; sleep 1000 & echo stop; wait\n");
    court.wait();
    CHECK(court.answer == Verdict::none);
    CHECK(court.trouble == "has not ended within 0.1 s and was killed");
    run_until(court.context, [] { return has_no_children(); });
    // What was killed is in nobody's way.
    Court next;
    next.ask("echo stop\n");
    next.wait();
    CHECK(next.answer == Verdict::stop);
}

TEST_CASE("what an answer leaves running is killed, too") {
    Court court;
    court.ask("sleep 1000 & echo stop\n");
    court.wait();
    CHECK(court.answer == Verdict::stop);
    run_until(court.context, [] { return has_no_children(); });
}

TEST_CASE("another question takes the place of one that is open") {
    Court court;
    bool asked = false;
    court.judge.ask({.program = court.folder.file("first", "#!/bin/sh\nsleep 1000\n", 0700),
                     .environment = stub_spec({}).environment},
                    [&](const Judgement&, const std::string&) { asked = true; });
    court.ask("echo restart\n");
    court.wait();
    CHECK(court.answer == Verdict::restart);
    CHECK_FALSE(asked);
}

TEST_CASE("a program is killed when nobody waits for its answer any more") {
    Court court;
    court.ask("sleep 1000\n");
    court.judge.stop();
    bool swept = false;
    court.runner.sweep(10s, [&](const SweepResult& result) { swept = result.nothing_left; });
    run_until(court.context, [&] { return swept; });
    CHECK_FALSE(court.answer);
}

TEST_CASE("the question names the round that was announced, also where no worker of it could be started") {
    boost::asio::io_context context{1};
    LocalRunner runner{context.get_executor()};
    TemporaryFolder folder;
    FakeAgent agent(context.get_executor());
    agent.starts = &runner;
    agent.now.job_id = "job-1";
    agent.given.environment = stub_spec({}).environment;
    std::string& program = agent.given.features.of<FailureJudgeOptions>().program;
    program = folder.file("judge",
                          "#!/bin/sh\ncat > $0.question\necho \"$DDPRUN_RUN_ID\" > $0.id\necho stop\n", 0700);
    LauncherLog log;
    FeatureInputs inputs{.options = agent.given, .log = log};
    const auto judge = make_failure_judge(inputs);
    REQUIRE(judge);
    CHECK(judge->answers_failures());
    judge->began(agent);
    judge->heard(RoundReady{
        .round = 2, .job_id = "job-1", .group_world_size = 3, .restart_count = 1, .max_restarts = 4});
    judge->heard(JudgeFailure{2, {.kind = Failure::Kind::worker_failed, .exit_code = 1}});
    run_until(context, [&] { return !agent.sent.empty(); });
    const auto& answer = std::get<Judgement>(agent.sent.front());
    CHECK(answer.round == 2);
    CHECK(answer.answer == Verdict::stop);
    CHECK(*read_small_file(program + ".id", 100) == "job-1\n");
    const std::string question = *read_small_file(program + ".question", 10'000);
    CHECK(question.find(R"("job_id":"job-1","round":2,"restarts":1,"max_restarts":4,"nodes":3,)") !=
          std::string::npos);
    judge->agent_leaves();
    const std::size_t asked = make_features(inputs).size();
    program.clear();
    CHECK(make_features(inputs).size() == asked - 1);
}

}  // namespace ddprun
