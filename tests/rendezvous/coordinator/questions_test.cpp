// What agents ask each other through the coordinator.
#include "rendezvous/coordinator/questions.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

constexpr Question kQuestion{.id = 70, .kind = "status", .text = ""};

// Who is told what, one word for each message.
std::vector<std::string> told(const Coordinator::Outbox& outbox) {
    std::vector<std::string> words;
    for (const auto& [to, message, close, ends] : outbox) {
        if (const auto* question = std::get_if<Question>(&message))
            words.push_back(std::to_string(to) + " is asked " + question->kind);
        if (const auto* answer = std::get_if<Answer>(&message))
            words.push_back(std::to_string(to) + " hears " + std::to_string(answer->id) + " of node " +
                            std::to_string(answer->node) + ": " + answer->text + answer->trouble);
    }
    return words;
}

using Words = std::vector<std::string>;

Answer answer_to(const Coordinator::Outbox& asked, const std::string& text, bool is_last = true) {
    return {.id = of_type<Question>(asked).at(0).id, .is_last = is_last, .text = text};
}

}  // namespace

TEST_CASE("questions: every other node is asked, and the answers come back under the asker's number") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {1, 1, 1});
    const auto asked = coordinator.receive(2, kQuestion, kStart);
    CHECK(told(asked) == Words{"1 is asked status", "3 is asked status"});
    const auto first = coordinator.receive(3, answer_to(asked, "half", false), kStart);
    CHECK(told(first) == Words{"2 hears 70 of node 2: half"});
    const Answer passed = of_type<Answer>(first)[0];
    CHECK((passed.host == "gpu2" && passed.asked == 2 && !passed.is_last));
    CHECK(told(coordinator.receive(3, answer_to(asked, "whole"), kStart)) ==
          Words{"2 hears 70 of node 2: whole"});
    // What nobody awaits is passed on to nobody.
    CHECK(told(coordinator.receive(3, answer_to(asked, "again"), kStart)).empty());
    CHECK(told(coordinator.receive(2, answer_to(asked, "of the asker"), kStart)).empty());
    CHECK(told(coordinator.receive(1, Answer{.id = 4711, .text = "x"}, kStart)).empty());
    CHECK(told(coordinator.receive(1, answer_to(asked, "y"), kStart)) == Words{"2 hears 70 of node 0: y"});
    CHECK(told(coordinator.receive(1, answer_to(asked, "z"), kStart)).empty());
}

TEST_CASE("questions: a node that is lost answers by the coordinator, one that asked is told no more") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {1, 1, 1});
    const auto asked = coordinator.receive(2, kQuestion, kStart);
    const auto others = coordinator.receive(3, Question{.id = 5, .kind = "status", .text = ""}, kStart);
    const auto lost = told(coordinator.closed(3, kStart));
    CHECK(std::count(lost.begin(), lost.end(), "2 hears 70 of node 2: the connection to it broke") == 1);
    CHECK(told(coordinator.receive(1, answer_to(others, "x"), kStart)).empty());
    CHECK(told(coordinator.receive(1, answer_to(asked, "y"), kStart)) == Words{"2 hears 70 of node 0: y"});
}

TEST_CASE("questions: one node alone is asked, by its number or by one of its ranks") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {2, 2, 1});
    const auto by_node = [](int node) {
        return Question{.id = 70, .kind = "output", .text = "", .node = node};
    };
    const auto by_rank = [](int rank) {
        return Question{.id = 70, .kind = "output", .text = "", .rank = rank};
    };
    CHECK(told(coordinator.receive(1, by_node(2), kStart)) == Words{"3 is asked output"});
    const auto asked = coordinator.receive(1, by_rank(3), kStart);
    CHECK(told(asked) == Words{"2 is asked output"});
    // No other node can answer it, nor say of which ranks it tells.
    CHECK(told(coordinator.receive(3, answer_to(asked, "of another"), kStart)).empty());
    Answer lie = answer_to(asked, "printed");
    lie.node = 2;
    lie.first_rank = 4;
    lie.ranks = 1;
    const Answer passed = of_type<Answer>(coordinator.receive(2, lie, kStart)).at(0);
    CHECK((passed.node == 1 && passed.host == "gpu1" && passed.first_rank == 2 && passed.ranks == 2));
    CHECK((passed.asked == 1 && passed.text == "printed"));
    // Neither the asker itself nor a node that is not there.
    for (const Question& question : {by_rank(0), by_rank(5), by_node(0), by_node(3)})
        CHECK(told(coordinator.receive(1, question, kStart)) == Words{"1 hears 70 of node -1: "});
}

TEST_CASE("questions: whoever is alone is told so") {
    Coordinator coordinator = make(1);
    join_all(coordinator, {1});
    CHECK(told(coordinator.receive(1, kQuestion, kStart)) == Words{"1 hears 70 of node -1: "});
}

TEST_CASE("questions: in every state of a job, and of members only") {
    Coordinator gathering = make(2);
    gathering.receive(1, hello(0, 2), kStart);
    CHECK(told(gathering.receive(1, kQuestion, kStart)) == Words{"1 hears 70 of node -1: "});
    CHECK(told(gathering.receive(9, kQuestion, kStart)).empty());
    Coordinator stopping = make(2);
    join_all(stopping, {1, 1});
    Failure failure{.kind = Failure::Kind::worker_failed};
    failure.rank = 1;
    failure.node_rank = 1;
    failure.exit_code = 1;
    stopping.receive(2, WorkerFailed{0, failure}, kStart);
    CHECK(told(stopping.receive(1, kQuestion, kStart)) == Words{"2 is asked status"});
}

TEST_CASE("questions: a node that owes an agent too many answers is not asked by it") {
    Coordinator coordinator = make(3);
    join_all(coordinator, {1, 1, 1});
    std::vector<Coordinator::Outbox> asked;
    for (int i = 0; i < Questions::kMaxOwed; ++i) {
        asked.push_back(coordinator.receive(1, Question{.id = 10, .kind = "status", .text = ""}, kStart));
        REQUIRE(told(asked.back()) == Words{"2 is asked status", "3 is asked status"});
        if (i > 0) coordinator.receive(3, answer_to(asked.back(), "x"), kStart);
    }
    const auto more = coordinator.receive(1, kQuestion, kStart);
    CHECK(told(more) ==
          Words{"3 is asked status", "1 hears 70 of node 1: it has yet to answer what it was asked before"});
    CHECK(of_type<Answer>(more)[0].asked == 2);
    // It owes them to one agent only.
    CHECK(told(coordinator.receive(3, kQuestion, kStart)) == Words{"1 is asked status", "2 is asked status"});
    // The oldest is still answered, and then there is room for another one.
    CHECK(told(coordinator.receive(2, answer_to(asked[0], "x", false), kStart)) ==
          Words{"1 hears 10 of node 1: x"});
    CHECK(told(coordinator.receive(1, kQuestion, kStart)).size() == 2);
    coordinator.receive(2, answer_to(asked[0], "y"), kStart);
    CHECK(told(coordinator.receive(1, kQuestion, kStart)) == Words{"2 is asked status", "3 is asked status"});
}

TEST_CASE("questions: an agent that comes back owes nothing, and may ask") {
    Coordinator coordinator = make_restarting(2, {.max_restarts = 3});
    join_all(coordinator, {1, 1});
    for (int i = 0; i < Questions::kMaxOwed + 3; ++i) coordinator.receive(1, kQuestion, kStart);
    const auto lost = told(coordinator.closed(2, kStart));
    CHECK(std::count(lost.begin(), lost.end(), "1 hears 70 of node 1: the connection to it broke") ==
          Questions::kMaxOwed);
    CHECK(told(coordinator.receive(1, kQuestion, kStart)) == Words{"1 hears 70 of node -1: "});
}

TEST_CASE("questions: an answer of too many pieces is cut short") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    const auto asked = coordinator.receive(1, kQuestion, kStart);
    for (int i = 0; i < Questions::kMaxPieces; ++i)
        REQUIRE(told(coordinator.receive(2, answer_to(asked, "", false), kStart)) ==
                Words{"1 hears 70 of node 1: "});
    const auto cut = coordinator.receive(2, answer_to(asked, "x", false), kStart);
    CHECK(told(cut) == Words{"1 hears 70 of node 1: it says more than an answer may have"});
    CHECK(of_type<Answer>(cut)[0].is_last);
    CHECK(told(coordinator.receive(2, answer_to(asked, "x"), kStart)).empty());
}

TEST_CASE("questions: a node that leaves the job is awaited no longer") {
    CoordinatorOptions options{.version = "1", .run_id = "none", .job_id = "job", .nnodes = 3};
    options.elasticity.min_nodes = 1;
    options.restarts.max_restarts = 3;
    Coordinator coordinator(std::move(options), kStart);
    Coordinator::Outbox ready;
    for (int rank = 0; rank < 3; ++rank) {
        Hello one = hello(rank, 3);
        one.min_nodes = 1;
        ready = coordinator.receive(static_cast<std::uint64_t>(rank) + 1, one, kStart);
    }
    REQUIRE(of_type<RoundReady>(ready).size() == 3);
    coordinator.receive(1, kQuestion, kStart);
    coordinator.receive(3, AgentSignalled{.round = 0, .signal = 15}, kStart);
    std::vector<std::string> words;
    for (std::uint64_t agent = 1; agent <= 3; ++agent) {
        for (std::string& word : told(coordinator.receive(agent, gone(0, false), kStart)))
            words.push_back(std::move(word));
    }
    for (std::string& word : told(coordinator.tick(kStart + std::chrono::seconds(30))))
        words.push_back(std::move(word));
    CHECK(words == Words{"1 hears 70 of node 2: it has left the job"});
}

}  // namespace ddprun
