// What a node says to another node's Question.
#include "launcher/agent/node_answer.hpp"

#include "rendezvous/control/control_wire.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

class Answerer final : public Feature {
  public:
    Answerer(std::string kind, std::string text) : kind_(std::move(kind)), text_(std::move(text)) {}

    bool answer(const Question& question, const SayAnswer& say) override {
        ++asked;
        if (question.kind != kind_) return false;
        later = [say, text = text_ + question.text] { say({.text = text}); };
        if (!waits) later();
        return true;
    }

    bool waits = false;
    std::function<void()> later;

    int asked = 0;

  private:
    std::string kind_;
    std::string text_;
};

std::vector<Answer> said_by(const Features& features, const Question& question, bool has_key) {
    std::vector<Answer> said;
    answer_to(question, features, has_key, [&said](Answer piece) { said.push_back(std::move(piece)); });
    return said;
}

std::vector<Answer> say_to(std::string kind, Answerer& answerer, bool has_key) {
    return said_by(Features({&answerer}), {.id = 70, .kind = std::move(kind), .text = "?"}, has_key);
}

}  // namespace

TEST_CASE("node answer: a text goes in pieces, in order, of which the last is told") {
    for (const std::size_t size : {std::size_t{1}, kMaxAnswerPiece - 1, kMaxAnswerPiece, kMaxAnswerPiece + 1,
                                   2 * kMaxAnswerPiece, 3 * kMaxAnswerPiece + 7}) {
        INFO(size << " bytes");
        std::string text;
        while (text.size() < size - 1) text += static_cast<char>('a' + text.size() % 23);
        Answerer answerer("status", text);
        const std::vector<Answer> pieces = say_to("status", answerer, false);
        REQUIRE(pieces.size() == (size + kMaxAnswerPiece - 1) / kMaxAnswerPiece);
        std::string whole;
        for (const Answer& piece : pieces) {
            CHECK((piece.id == 70 && piece.trouble.empty() && piece.text.size() <= kMaxAnswerPiece));
            CHECK(piece.is_last == (&piece == &pieces.back()));
            whole += piece.text;
        }
        CHECK(whole == text + "?");
    }
}

TEST_CASE("node answer: an empty text is one last piece") {
    Answerer answerer("status", "");
    const auto pieces = said_by(Features({&answerer}), Question{.id = 5, .kind = "status", .text = ""}, true);
    REQUIRE(pieces.size() == 1);
    CHECK((pieces[0].id == 5 && pieces[0].is_last && pieces[0].text.empty() && pieces[0].trouble.empty()));
}

TEST_CASE("node answer: without a key a node tells its status and nothing else") {
    struct Case {
        const char* kind;
        bool has_key;
        bool is_told;
    };
    for (const auto& [kind, has_key, is_told] :
         {Case{"status", false, true}, Case{"status", true, true}, Case{"logs", false, false},
          Case{"logs", true, true}, Case{"", false, false}, Case{"status ", false, false}}) {
        INFO(kind << (has_key ? ", with" : ", without") << " a key");
        Answerer answerer(kind, "secret");
        const auto said = say_to(kind, answerer, has_key);
        REQUIRE(said.size() == 1);
        CHECK((said[0].id == 70 && said[0].is_last));
        CHECK(answerer.asked == (is_told ? 1 : 0));
        CHECK(said[0].text == (is_told ? "secret?" : ""));
        CHECK(said[0].trouble ==
              (is_told ? ""
                       : "without a secret of the job (ddprun --make-secret) a node tells others its status "
                         "only"));
    }
}

TEST_CASE("node answer: what no feature knows is named, and moves no cursor") {
    Answerer answerer("logs", "");
    const auto said = say_to("st\x1b[2Jate\r", answerer, true);
    REQUIRE(said.size() == 1);
    CHECK((said[0].id == 70 && said[0].is_last && said[0].text.empty()));
    CHECK(said[0].trouble == "this node knows no answer to 'state?'");
}

TEST_CASE("node answer: the first feature that knows the kind is heard") {
    Answerer other("logs", "x");
    Answerer first("status", "1");
    Answerer second("status", "2");
    const auto said =
        said_by(Features({&other, &first, &second}), Question{.id = 1, .kind = "status", .text = ""}, false);
    REQUIRE(said.size() == 1);
    CHECK(said[0].text == "1");
    CHECK((other.asked == 1 && first.asked == 1 && second.asked == 0));
}

TEST_CASE("node answer: a feature may answer later") {
    Answerer answerer("output", "printed");
    answerer.waits = true;
    std::vector<Answer> said;
    answer_to(Question{.id = 7, .kind = "output", .text = "!"}, Features({&answerer}), true,
              [&said](Answer piece) { said.push_back(std::move(piece)); });
    CHECK(said.empty());
    answerer.later();
    REQUIRE(said.size() == 1);
    CHECK((said[0].id == 7 && said[0].is_last && said[0].text == "printed!"));
}

TEST_CASE("node answer: whatever bytes a text has come to the other side as they are") {
    std::string bytes;
    for (int i = 0; bytes.size() < kMaxAnswerPiece; ++i)
        bytes += static_cast<char>(i % 32);                                  // each is escaped
    while (bytes.size() < 2 * kMaxAnswerPiece + 1) bytes += "\xe2\x82\xac";  // parted in the middle
    Answerer answerer("status", bytes);
    std::string whole;
    for (const Answer& piece : say_to("status", answerer, false)) {
        ControlFrames frames;
        frames.append(encode_control(piece));
        const auto read = frames.next();
        REQUIRE(read);
        whole += std::get<Answer>(*read).text;
    }
    CHECK(whole == bytes + "?");
}

}  // namespace ddprun
