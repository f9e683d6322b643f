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

void say_in_pieces(std::uint64_t id, Answer whole, const SayAnswer& say) {
    if (!whole.trouble.empty()) return say({.id = id, .trouble = std::move(whole.trouble)});
    for (std::size_t at = 0; at == 0 || at < whole.text.size(); at += kMaxAnswerPiece)
        say({.id = id,
             .is_last = at + kMaxAnswerPiece >= whole.text.size(),
             .text = whole.text.substr(at, kMaxAnswerPiece)});
}

}  // namespace

void answer_to(const Question& question, const Features& features, bool has_key, const SayAnswer& say) {
    const auto say_whole = [id = question.id, say](Answer whole) {
        say_in_pieces(id, std::move(whole), say);
    };
    if (!has_key && question.kind != kStatusQuestion)
        return say_whole(
            {.trouble =
                 "without a secret of the job (ddprun --make-secret) a node tells others its status only"});
    if (!features.answer(question, say_whole))
        say_whole(
            {.trouble = fmt::format("this node knows no answer to '{}'", harmless_line(question.kind))});
}

}  // namespace launch
}  // namespace ddprun
