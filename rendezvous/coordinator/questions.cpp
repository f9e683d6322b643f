#include "rendezvous/coordinator/questions.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
inline namespace job {

Outgoing Questions::passed_on(const Open& open, const JobNode& from, Answer answer) const {
    answer.id = open.asker_id;
    answer.node = from.hello.node_rank;
    answer.host = from.hello.host;
    answer.asked = open.asked;
    return {open.asker, std::move(answer)};
}

Messages Questions::ask(const JobNode& from, const Question& question, const JobNodes& nodes) {
    Messages out;
    if (open_.size() == kMaxOpen) {
        out.push_back({open_.front().asker,
                       Answer{.id = open_.front().asker_id, .trouble = "too many questions at one time"}});
        open_.pop_front();
    }
    Open open{.number = ++last_number_, .asker = from.connection, .asker_id = question.id};
    for (const auto& [key, node] : nodes) {
        if (!node.connected || node.connection == from.connection) continue;
        open.awaited.insert(node.connection);
        out.push_back({node.connection, Question{open.number, question.kind, question.text}});
    }
    open.asked = static_cast<int>(open.awaited.size());
    if (open.awaited.empty()) {
        out.push_back({open.asker, Answer{.id = open.asker_id}});
    } else {
        open_.push_back(std::move(open));
    }
    return out;
}

Messages Questions::answer(const JobNode& from, const Answer& answer) {
    const auto open = std::find_if(open_.begin(), open_.end(),
                                   [&answer](const Open& one) { return one.number == answer.id; });
    if (open == open_.end() || !open->awaited.contains(from.connection)) return {};
    Messages out{passed_on(*open, from, answer)};
    if (answer.is_last) open->awaited.erase(from.connection);
    if (open->awaited.empty()) open_.erase(open);
    return out;
}

Messages Questions::lose(const JobNode& node) {
    std::erase_if(open_, [&node](const Open& open) { return open.asker == node.connection; });
    Messages out;
    for (Open& open : open_) {
        if (open.awaited.erase(node.connection) > 0)
            out.push_back(passed_on(open, node, Answer{.trouble = "the connection to it broke"}));
    }
    std::erase_if(open_, [](const Open& open) { return open.awaited.empty(); });
    return out;
}

}  // namespace job
}  // namespace ddprun
