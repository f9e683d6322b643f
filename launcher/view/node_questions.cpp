#include "launcher/view/node_questions.hpp"

#include <fmt/core.h>

#include <utility>
#include <variant>

namespace ddprun {
inline namespace launch {

void NodeQuestions::ask(std::string kind, std::string text, Done done) {
    const std::uint64_t id = ++last_id_;
    Open& open = open_.emplace(id, Open{{}, boost::asio::steady_timer(executor_, limit_), std::move(done)})
                     .first->second;
    open.timer.async_wait([this, id](const boost::system::error_code& cancelled) {
        if (!cancelled) finish(id, fmt::format("it did not answer within {} s", limit_.count() / 1000));
    });
    send_(Question{.id = id, .kind = std::move(kind), .text = std::move(text)});
}

void NodeQuestions::hear(const ControlMessage& message) {
    const auto* piece = std::get_if<Answer>(&message);
    const auto open = piece == nullptr ? open_.end() : open_.find(piece->id);
    if (open == open_.end()) return;
    open->second.answers.add(*piece);
    if (open->second.answers.is_complete()) finish(piece->id, {});
}

void NodeQuestions::finish(std::uint64_t id, const std::string& why_unfinished) {
    const auto node = open_.extract(id);
    if (node.empty()) return;
    Open& open = node.mapped();
    std::vector<NodeAnswer> answers = open.answers.take(why_unfinished);
    const std::string& refusal = open.answers.refusal();
    open.done(std::move(answers), refusal.empty() ? why_unfinished : refusal);
}

}  // namespace launch
}  // namespace ddprun
