#include "launcher/view/gathered_answers.hpp"

#include <utility>

namespace ddprun {
inline namespace launch {

void GatheredAnswers::add(const Answer& piece) {
    is_counted_ = true;
    asked_ = piece.asked;
    if (piece.node == Answer::kNoNode) {
        refusal_ = piece.trouble;
        return;
    }
    auto [place, is_new] = nodes_.try_emplace(piece.node);
    Entry& entry = place->second;
    if (is_new)
        entry.answer = {.node = piece.node,
                        .host = piece.host,
                        .text = {},
                        .trouble = {},
                        .first_rank = piece.first_rank,
                        .ranks = piece.ranks};
    if (entry.is_done) return;
    if (!piece.trouble.empty()) entry.answer.trouble = piece.trouble;
    if (bytes_ + piece.text.size() > most_) entry.answer.trouble = "the answers of all nodes are too long";
    if (entry.answer.trouble.empty()) {
        entry.answer.text += piece.text;
        bytes_ += piece.text.size();
    }
    entry.is_done = piece.is_last || !entry.answer.trouble.empty();
    if (entry.is_done) ++done_;
}

std::vector<NodeAnswer> GatheredAnswers::take(const std::string& unfinished) {
    std::vector<NodeAnswer> answers;
    for (auto& [node, entry] : nodes_) {
        if (!entry.is_done) entry.answer.trouble = unfinished;
        if (!entry.answer.trouble.empty()) entry.answer.text.clear();
        answers.push_back(std::move(entry.answer));
    }
    nodes_.clear();
    return answers;
}

}  // namespace launch
}  // namespace ddprun
