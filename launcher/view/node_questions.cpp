#include "launcher/view/node_questions.hpp"

#include <fmt/core.h>

#include <utility>
#include <variant>

namespace ddprun {
inline namespace launch {

void NodeQuestions::ask_by(Question question, std::size_t most, std::chrono::milliseconds limit, Done done) {
    question.id = ++last_id_;
    Open& open = open_
                     .emplace(question.id, Open{GatheredAnswers(most),
                                                boost::asio::steady_timer(executor_, limit), std::move(done)})
                     .first->second;
    open.timer.async_wait([this, id = question.id, limit](const boost::system::error_code& cancelled) {
        if (!cancelled) finish(id, fmt::format("it did not answer within {} s", limit.count() / 1000));
    });
    send_(std::move(question));
}

void NodeQuestions::ask(std::string kind, std::string text, Done done) {
    ask_by({.kind = std::move(kind), .text = std::move(text)}, GatheredAnswers::kMaxBytes, limit_,
           std::move(done));
}

void NodeQuestions::ask_one(Question question, std::chrono::milliseconds may_wait, DoneOne done) {
    OfNode& of_node = of_nodes_[{question.node, question.rank}];
    ForOne one{std::move(question), limit_ + may_wait, std::move(done)};
    if (of_node.open == kMostOfNode) return of_node.waiting.push_back(std::move(one));
    ++of_node.open;
    open_one(std::move(one));
}

void NodeQuestions::open_one(ForOne one) {
    const int node = one.question.node;
    const Place place{node, one.question.rank};
    ask_by(std::move(one.question), kMostSaid, one.limit,
           [this, node, place, done = std::move(one.done)](std::vector<NodeAnswer> answers,
                                                           const std::string& why_none) {
               next_of(place);
               if (answers.size() == 1) return done(std::move(answers.front()));
               done({.node = node,
                     .host = {},
                     .text = {},
                     .trouble = why_none.empty() ? "its launcher is not connected" : why_none});
           });
}

void NodeQuestions::next_of(const Place& place) {
    const auto of_node = of_nodes_.find(place);
    if (of_node->second.waiting.empty()) {
        if (--of_node->second.open == 0) of_nodes_.erase(of_node);
        return;
    }
    ForOne one = std::move(of_node->second.waiting.front());
    of_node->second.waiting.pop_front();
    open_one(std::move(one));
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
