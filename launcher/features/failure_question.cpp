#include "launcher/features/failure_question.hpp"

#include <vector>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

struct QuestionRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view kBlanks = " \t\r";
    std::vector<std::string_view> words;
    for (;;) {
        line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
        if (line.empty()) return words;
        words.push_back(line.substr(0, line.find_first_of(kBlanks)));
        line.remove_prefix(words.back().size());
    }
}

}  // namespace

std::string to_json(const FailureQuestion& question, const Failure& failure) {
    boost::json::object root;
    put_members<QuestionRules>(root, question);
    put_members<QuestionRules>(root, failure);
    return boost::json::serialize(root) + "\n";
}

std::optional<Judgement> parse_answer(std::string_view said) {
    const auto words = words_of(said.substr(0, said.find('\n')));
    if (words.size() == 1 && words[0] == "restart") return Judgement{.answer = Judgement::Answer::restart};
    if (words.size() == 1 && words[0] == "stop") return Judgement{.answer = Judgement::Answer::stop};
    if (words.size() != 2 || words[0] != "exclude") return std::nullopt;
    const auto node = whole_number<int>(words[1]);
    if (!node || *node < 0) return std::nullopt;
    return Judgement{.answer = Judgement::Answer::exclude, .node = *node};
}

}  // namespace ddprun::inline launch
