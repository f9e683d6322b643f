#include "launcher/view/node_questions.hpp"

#include <fmt/core.h>

#include <algorithm>
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
    const auto known = nodes_of_ranks_.find(question.rank);
    const int node = known != nodes_of_ranks_.end() ? known->second : question.node;
    of_nodes_[node].waiting.push_back({std::move(question), may_wait, std::move(done)});
    open_next(node);
}

void NodeQuestions::open_next(int node) {
    OfNode& of_node = of_nodes_[node];
    const auto may_open = [&of_node](const ForOne& one) {
        return one.may_wait.count() == 0 || of_node.kept < kMostKept;
    };
    const auto next = std::find_if(of_node.waiting.begin(), of_node.waiting.end(), may_open);
    if (of_node.open == kMostOfNode || next == of_node.waiting.end()) return;
    ForOne one = std::move(*next);
    of_node.waiting.erase(next);
    ++of_node.open;
    if (one.may_wait.count() > 0) ++of_node.kept;
    open_one(node, std::move(one));
}

void NodeQuestions::open_one(int node, ForOne one) {
    const std::chrono::milliseconds limit = limit_ + one.may_wait;
    const int asked = one.question.node, rank = one.question.rank;
    ask_by(std::move(one.question), kMostSaid, limit,
           [this, node, asked, rank, may_wait = one.may_wait, done = std::move(one.done)](
               std::vector<NodeAnswer> answers, const std::string& why_none) {
               settle(node, may_wait);
               if (answers.size() != 1)
                   return done({.node = asked,
                                .host = {},
                                .text = {},
                                .trouble = why_none.empty() ? "its launcher is not connected" : why_none});
               if (rank != Question::kAny) nodes_of_ranks_[rank] = answers.front().node;
               done(std::move(answers.front()));
           });
}

void NodeQuestions::settle(int node, std::chrono::milliseconds may_wait) {
    const auto of_node = of_nodes_.find(node);
    if (may_wait.count() > 0) --of_node->second.kept;
    if (--of_node->second.open == 0 && of_node->second.waiting.empty()) {
        of_nodes_.erase(of_node);
        return;
    }
    open_next(node);
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
