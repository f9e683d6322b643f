#include "launcher/view/gathered_answers.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Answer piece(int node, const std::string& text, bool is_last = true, int asked = 2) {
    return {.id = 1,
            .node = node,
            .host = "gpu" + std::to_string(node),
            .asked = asked,
            .is_last = is_last,
            .text = text};
}

}  // namespace

TEST_CASE("gathered answers: complete when each node that was asked has said its last") {
    GatheredAnswers answers;
    CHECK_FALSE(answers.is_complete());
    answers.add(piece(2, "ab", false));
    answers.add(piece(1, "x"));
    CHECK_FALSE(answers.is_complete());
    answers.add(piece(1, "more"));  // behind its last
    CHECK_FALSE(answers.is_complete());
    answers.add(piece(2, "c"));
    CHECK(answers.is_complete());
    CHECK(answers.take("late") == std::vector<NodeAnswer>{{1, "gpu1", "x", ""}, {2, "gpu2", "abc", ""}});
}

TEST_CASE("gathered answers: a node that does not come to its end has trouble and no text") {
    GatheredAnswers answers;
    answers.add(piece(1, "half", false));
    answers.add(Answer{.id = 1, .node = 2, .host = "gpu2", .asked = 2, .trouble = "lost"});
    CHECK_FALSE(answers.is_complete());
    CHECK(answers.take("late") == std::vector<NodeAnswer>{{1, "gpu1", "", "late"}, {2, "gpu2", "", "lost"}});
}

TEST_CASE("gathered answers: no other node is there, or may be asked") {
    GatheredAnswers alone;
    alone.add(Answer{.id = 1});
    CHECK((alone.is_complete() && alone.refusal().empty() && alone.take("").empty()));
    GatheredAnswers refused;
    refused.add(Answer{.id = 1, .trouble = "too many"});
    CHECK((refused.is_complete() && refused.refusal() == "too many"));
}

TEST_CASE("gathered answers: texts are bounded together") {
    GatheredAnswers answers;
    const std::string large(kMaxAnswerPiece, 'x');
    for (std::size_t bytes = 0; bytes < GatheredAnswers::kMaxBytes; bytes += large.size())
        answers.add(piece(1, large, false));
    answers.add(piece(1, "x", false));
    answers.add(piece(2, ""));
    CHECK(answers.is_complete());
    CHECK(answers.take("")[0].trouble == "the answers of all nodes are too long");
}

}  // namespace ddprun
