#include "launcher/watch/job_looks.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <optional>

#include "launcher/verdict/observation_text.hpp"
#include "rendezvous/secure/secret.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

// JobLooksFixture: rank 2 of node 1 of two nodes; ranks 0 and 1 are the other node's.
class JobLooksFixture {
  public:
    JobLooksFixture() {
        agent.now.node = 1;
        agent.now.group_world_size = 2;
        agent.now.world_size = 3;
        agent.now.first_rank = 2;
        WorkerStatus worker;
        worker.rank = 2;
        worker.pid = asleep.pid();
        agent.now.workers.push_back(worker);
        agent.given.key = job_key("a secret of some bytes", "looks");
        asleep.await_state('S');
    }

    boost::json::object take(const StacksTerms& terms = {}) {
        std::optional<StacksAnswer> answer;
        looks->take(terms, "train-7f3a", [&answer](StacksAnswer said) { answer = std::move(said); });
        if (!agent.sent.empty() && !said.empty()) {
            const auto& question = std::get<Question>(agent.sent.back());
            questions.hear(Answer{.id = question.id, .node = 0, .host = "gpu06", .asked = 1, .text = said});
        }
        run_until(context, [&answer] { return answer.has_value(); });
        refusal = answer->refusal;
        return refusal.empty() ? boost::json::parse(answer->text).as_object() : boost::json::object{};
    }

    boost::asio::io_context context{1};
    OtherProcess asleep{std::vector<std::string>{"sleep", "1000"}};
    FakeAgent agent{context.get_executor()};
    NodeQuestions questions{context.get_executor(),
                            [this](const ControlMessage& message) { agent.send(message); }, kHangGuard};
    std::optional<JobLooks> looks{std::in_place, agent, questions};
    std::string said;  // by the other node
    std::string refusal;
};

std::string others() {
    std::vector<Observation> seen(2);
    seen[1].rank = 1;
    for (Observation& one : seen) {
        one.host = "gpu06";
        one.wait = Wait{.kind = WaitKind::sleep};
        one.frames = {{.function = "next_batch", .file = "train.py", .line = 8}};
        one.source = StackSource::python;
    }
    return to_json(seen);
}

}  // namespace

TEST_CASE("job looks: own ranks and those of the other node are one answer") {
    JobLooksFixture fixture;
    fixture.said = others();
    const auto told = fixture.take();
    CHECK((told.at("ranks_asked") == 3 && told.at("ranks_answered") == 3));
    CHECK(told.at("groups").as_array().size() == 2);
    CHECK(told.at("failed").as_array().empty());
}

TEST_CASE("job looks: ranks whose node says nothing that is understood stay in the answer, with the reason") {
    JobLooksFixture fixture;
    fixture.said = "nonsense";
    const auto told = fixture.take();
    CHECK((told.at("ranks_asked") == 3 && told.at("ranks_answered") == 1));
    CHECK(told.at("failed").as_array().size() == 2);
}

TEST_CASE("job looks: without a secret the other nodes are not asked") {
    JobLooksFixture fixture;
    fixture.agent.given.key.reset();
    const auto told = fixture.take();
    CHECK(fixture.agent.sent.empty());
    REQUIRE(told.at("failed").as_array().size() == 2);
    CHECK(std::string(told.at("failed").at(0).at("why").as_string()) == kNoSecret);
}

TEST_CASE("job looks: a rank that the job does not have, and a job without workers, are refused") {
    JobLooksFixture fixture;
    fixture.take({.rank = 3});
    CHECK(fixture.refusal == "the job has 3 ranks");
    fixture.agent.now.world_size = 0;
    fixture.take();
    CHECK(fixture.refusal == "no worker was started yet");
}

TEST_CASE("job looks: of own ranks the other nodes are not asked") {
    JobLooksFixture fixture;
    const auto told = fixture.take({.rank = 2});
    CHECK(fixture.agent.sent.empty());
    CHECK((told.at("ranks_asked") == 1 && told.at("groups").as_array().size() == 1));
}

TEST_CASE("job looks: another node's question is answered with what is seen here") {
    JobLooksFixture fixture;
    std::optional<Answer> answer;
    const SayAnswer say = [&answer](Answer text) { answer = std::move(text); };
    const auto ask = [&](std::string kind, std::string text) {
        answer.reset();
        return fixture.looks->answer({.kind = std::move(kind), .text = std::move(text)}, say);
    };
    CHECK_FALSE(ask("status", ""));
    CHECK(ask(std::string(kStacksQuestion), "rank=x"));
    REQUIRE(answer);
    CHECK(answer->trouble == "it does not understand the question");
    CHECK(ask(std::string(kStacksQuestion), to_text(StacksTerms{})));
    run_until(fixture.context, [&answer] { return answer.has_value(); });
    const auto seen = parse_observations(answer->text);
    REQUIRE((seen && seen->size() == 1));
    CHECK(seen->front().rank == 2);
}

TEST_CASE("job looks: one look at a time, and all are answered") {
    JobLooksFixture fixture;
    std::size_t done = 0;
    const std::size_t looks = JobLooks::kMostWaiting + 1;
    for (std::size_t i = 0; i < looks; ++i)
        fixture.looks->take({.rank = 2}, "train-7f3a", [&done](const StacksAnswer&) { ++done; });
    CHECK(done == 1);  // the one that found no place
    run_until(fixture.context, [&] { return done == looks; });
}

TEST_CASE("job looks: an end while ranks are looked at waits for no more than the look") {
    JobLooksFixture fixture;
    fixture.looks->take({.rank = 2}, "train-7f3a", [](const StacksAnswer&) { FAIL("the looks are gone"); });
    fixture.looks.reset();
    fixture.context.run();
}

}  // namespace ddprun
