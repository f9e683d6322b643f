#include "launcher/view/node_questions.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <optional>

#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

struct Heard {
    std::vector<NodeAnswer> answers;
    std::string why_none;
};

class QuestionsFixture {
  public:
    explicit QuestionsFixture(std::chrono::milliseconds limit)
        : questions_(
              context_.get_executor(), [this](const ControlMessage& message) { sent_.push_back(message); },
              limit) {}

    void ask(std::optional<Heard>& heard) {
        questions_.ask("status", "", [&heard](std::vector<NodeAnswer> answers, const std::string& why) {
            REQUIRE_FALSE(heard);
            heard = Heard{std::move(answers), why};
        });
    }
    void ask_one(int node, std::vector<NodeAnswer>& heard, std::chrono::milliseconds may_wait = {},
                 int rank = Question::kAny) {
        questions_.ask_one(Question{.kind = "output", .node = node, .rank = rank}, may_wait,
                           [&heard](NodeAnswer answer) { heard.push_back(std::move(answer)); });
    }
    std::size_t sent() const { return sent_.size(); }
    void hear(Answer answer) { questions_.hear(answer); }
    std::uint64_t id(std::size_t question) const { return std::get<Question>(sent_.at(question)).id; }
    void run() { context_.run(); }

  private:
    boost::asio::io_context context_{1};
    std::vector<ControlMessage> sent_;
    NodeQuestions questions_;
};

}  // namespace

TEST_CASE("node questions: each has its own answers") {
    QuestionsFixture fixture(kHangGuard);
    std::optional<Heard> first;
    std::optional<Heard> second;
    fixture.ask(first);
    fixture.ask(second);
    REQUIRE(fixture.id(0) != fixture.id(1));
    fixture.hear({.id = fixture.id(1), .node = 1, .host = "b", .asked = 1, .text = "two"});
    CHECK_FALSE(first);
    REQUIRE(second);
    CHECK(second->answers == std::vector<NodeAnswer>{{1, "b", "two", ""}});
    fixture.hear({.id = fixture.id(1), .node = 1, .asked = 1, .text = "late"});
    fixture.hear({.id = 4711, .node = 1, .asked = 1, .text = "nobody has asked"});
    fixture.hear({.id = fixture.id(0), .trouble = "too many questions"});
    REQUIRE(first);
    CHECK((first->answers.empty() && first->why_none == "too many questions"));
    fixture.run();  // no timer is left
}

TEST_CASE("node questions: one node is asked so much at one time, and another besides") {
    QuestionsFixture fixture(kHangGuard);
    std::vector<NodeAnswer> heard;
    for (int i = 0; i < NodeQuestions::kMostOfNode + 2; ++i) fixture.ask_one(1, heard);
    CHECK(fixture.sent() == NodeQuestions::kMostOfNode);
    fixture.ask_one(2, heard);
    CHECK(fixture.sent() == NodeQuestions::kMostOfNode + 1);
    fixture.hear({.id = fixture.id(0),
                  .node = 1,
                  .host = "b",
                  .first_rank = 2,
                  .ranks = 3,
                  .asked = 1,
                  .text = "one"});
    NodeAnswer one{1, "b", "one", ""};
    one.first_rank = 2;
    one.ranks = 3;
    CHECK(heard == std::vector<NodeAnswer>{one});
    CHECK(fixture.sent() == NodeQuestions::kMostOfNode + 2);
    // No node is there, or it says too much.
    fixture.hear({.id = fixture.id(1)});
    CHECK(heard.back().trouble == "its launcher is not connected");
    const std::string much(NodeQuestions::kMostSaid, 'x');
    fixture.hear({.id = fixture.id(2), .node = 1, .host = "b", .asked = 1, .is_last = false, .text = much});
    fixture.hear({.id = fixture.id(2), .node = 1, .host = "b", .asked = 1, .text = "y"});
    CHECK((heard.back().text.empty() && heard.back().trouble == "the answers of all nodes are too long"));
    for (std::size_t i = 3; i < fixture.sent(); ++i) fixture.hear({.id = fixture.id(i)});
    CHECK(heard.size() == NodeQuestions::kMostOfNode + 3);
    fixture.run();  // no timer is left
}

TEST_CASE("node questions: those that a node keeps hold up none that it answers at once") {
    QuestionsFixture fixture(kHangGuard);
    std::vector<NodeAnswer> kept, heard;
    for (int i = 0; i < 64; ++i) fixture.ask_one(1, kept, kHangGuard);
    CHECK(fixture.sent() == NodeQuestions::kMostKept);
    for (std::size_t i = 0; i < 100; ++i) {
        fixture.ask_one(1, heard);
        REQUIRE(fixture.sent() == NodeQuestions::kMostKept + i + 1);
        fixture.hear({.id = fixture.id(NodeQuestions::kMostKept + i), .node = 1, .asked = 1});
        REQUIRE(heard.size() == i + 1);
    }
    // Each that is answered makes room for the next one of its kind.
    for (std::size_t i = 0; kept.size() < 64; ++i) fixture.hear({.id = fixture.id(i), .node = 1, .asked = 1});
    fixture.run();  // no timer is left
}

TEST_CASE("node questions: of all ranks together a node is asked so much, too") {
    QuestionsFixture fixture(kHangGuard);
    std::vector<NodeAnswer> heard;
    for (int rank = 0; rank < 8; ++rank) fixture.ask_one(Question::kAny, heard, {}, rank);
    CHECK(fixture.sent() == NodeQuestions::kMostOfNode);
    for (std::size_t i = 0; i < 8; ++i) fixture.hear({.id = fixture.id(i), .node = 1, .asked = 1});
    REQUIRE(heard.size() == 8);
    // It is known now on which node they are.
    for (int rank = 0; rank < 8; ++rank) fixture.ask_one(Question::kAny, heard, {}, rank);
    fixture.ask_one(1, heard);
    CHECK(fixture.sent() == 8 + NodeQuestions::kMostOfNode);
    fixture.ask_one(Question::kAny, heard, {}, 99);
    CHECK(fixture.sent() == 8 + NodeQuestions::kMostOfNode + 1);
    for (std::size_t i = 8; i < fixture.sent(); ++i)
        fixture.hear({.id = fixture.id(i), .node = 1, .asked = 1});
    fixture.run();
}

TEST_CASE("node questions: what has not come in time is told") {
    QuestionsFixture fixture(std::chrono::milliseconds(1));
    std::optional<Heard> none;
    std::optional<Heard> half;
    fixture.ask(none);
    fixture.ask(half);
    fixture.hear({.id = fixture.id(1), .node = 1, .host = "b", .asked = 2, .is_last = false, .text = "one"});
    fixture.run();
    REQUIRE((none && half));
    CHECK(none->answers.empty());
    CHECK(none->why_none == "it did not answer within 0 s");
    CHECK(half->answers == std::vector<NodeAnswer>{{1, "b", "", "it did not answer within 0 s"}});
}

}  // namespace ddprun
