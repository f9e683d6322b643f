#include "rendezvous/coordinator/questions.hpp"

namespace ddprun {
inline namespace job {
namespace {

bool is_meant(const Question& question, const JobNode& node) {
    return (question.node == Question::kAny || question.node == node.hello.node_rank) &&
           (question.rank == Question::kAny || node.has_rank(question.rank));
}

}  // namespace

Outgoing Questions::passed_on(const Open& open, const JobNode& from, Answer answer) const {
    answer.id = open.asker_id;
    answer.node = from.hello.node_rank;
    answer.host = from.hello.host;
    answer.first_rank = from.run.base_rank;
    answer.ranks = from.hello.local_world_size;
    answer.asked = open.asked;
    return {open.asker, std::move(answer)};
}

// Returns the Question behind this one.
Questions::OpenQuestions::iterator Questions::settle(OpenQuestions::iterator open, std::uint64_t connection) {
    const auto owed = owed_.find({open->second.asker, connection});
    if (--owed->second == 0) owed_.erase(owed);
    open->second.awaited.erase(connection);
    return open->second.awaited.empty() ? open_.erase(open) : std::next(open);
}

Messages Questions::ask(const JobNode& from, const Question& question, const JobNodes& nodes) {
    Messages out;
    std::vector<const JobNode*> in_debt;
    const std::uint64_t number = ++last_number_;
    Open open{.asker = from.connection, .asker_id = question.id};
    for (const auto& [key, node] : nodes) {
        if (!node.connected || node.connection == from.connection || !is_meant(question, node)) continue;
        ++open.asked;
        int& owed = owed_[{from.connection, node.connection}];
        if (owed == kMaxOwed) {
            in_debt.push_back(&node);
            continue;
        }
        ++owed;
        open.awaited.emplace(node.connection, 0);
        out.push_back({node.connection, Question{number, question.kind, question.text}});
    }
    for (const JobNode* node : in_debt)
        out.push_back(passed_on(open, *node, {.trouble = "it has yet to answer what it was asked before"}));
    if (open.asked == 0) out.push_back({open.asker, Answer{.id = question.id}});
    if (!open.awaited.empty()) open_.emplace(number, std::move(open));
    return out;
}

Messages Questions::answer(const JobNode& from, const Answer& answer) {
    const auto open = open_.find(answer.id);
    if (open == open_.end()) return {};
    const auto awaited = open->second.awaited.find(from.connection);
    if (awaited == open->second.awaited.end()) return {};
    const bool is_too_long = ++awaited->second > kMaxPieces;
    Messages out{passed_on(open->second, from,
                           is_too_long ? Answer{.trouble = "it says more than an answer may have"} : answer)};
    if (is_too_long || answer.is_last) settle(open, from.connection);
    return out;
}

Messages Questions::lose(const JobNode& node, const std::string& why) {
    const std::uint64_t lost = node.connection;
    std::erase_if(open_, [lost](const auto& open) { return open.second.asker == lost; });
    std::erase_if(owed_, [lost](const auto& owed) { return owed.first.first == lost; });
    Messages out;
    for (auto open = open_.begin(); open != open_.end();) {
        if (!open->second.awaited.contains(lost)) {
            ++open;
            continue;
        }
        out.push_back(passed_on(open->second, node, {.trouble = why}));
        open = settle(open, lost);
    }
    return out;
}

}  // namespace job
}  // namespace ddprun
