#include "launcher/agent/node_answer.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "launcher/harmless_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

std::vector<Answer> pieces_of(std::uint64_t id, const std::string& text) {
    std::vector<Answer> pieces;
    for (std::size_t at = 0; at == 0 || at < text.size(); at += kMaxAnswerPiece)
        pieces.push_back({.id = id, .is_last = false, .text = text.substr(at, kMaxAnswerPiece)});
    pieces.back().is_last = true;
    return pieces;
}

}  // namespace

std::vector<Answer> answer_to(const Question& question, const Features& features, bool has_key) {
    const auto trouble = [&question](std::string why) {
        return std::vector<Answer>{{.id = question.id, .trouble = std::move(why)}};
    };
    if (!has_key && question.kind != kStatusQuestion)
        return trouble(
            "without a secret of the job (ddprun --make-secret) a node tells others its status only");
    const auto text = features.answer(question);
    if (!text) return trouble(fmt::format("this node knows no answer to '{}'", harmless_line(question.kind)));
    return pieces_of(question.id, *text);
}

}  // namespace launch
}  // namespace ddprun
