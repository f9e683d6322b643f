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

TEST_CASE("questions: so many may be open, then the oldest gives way") {
    Coordinator coordinator = make(2);
    join_all(coordinator, {1, 1});
    std::vector<Coordinator::Outbox> asked;
    for (std::uint64_t i = 0; i < Questions::kMaxOpen; ++i)
        asked.push_back(coordinator.receive(1, Question{.id = i, .kind = "status", .text = ""}, kStart));
    const auto more = coordinator.receive(1, kQuestion, kStart);
    CHECK(told(more) == Words{"1 hears 0 of node -1: too many questions at one time", "2 is asked status"});
    CHECK(told(coordinator.receive(2, answer_to(asked[0], "x"), kStart)).empty());
    CHECK(told(coordinator.receive(2, answer_to(asked[1], "x"), kStart)) == Words{"1 hears 1 of node 1: x"});
    CHECK(told(coordinator.receive(2, answer_to(more, "x"), kStart)) == Words{"1 hears 70 of node 1: x"});
}

}  // namespace ddprun
