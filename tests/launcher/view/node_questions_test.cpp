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
