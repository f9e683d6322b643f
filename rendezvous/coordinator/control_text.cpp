#include "rendezvous/coordinator/control_text.hpp"

namespace ddprun {

std::string to_text(const Waiting& waiting) {
    std::string text = "joined " + std::to_string(waiting.joined) + "/" + std::to_string(waiting.expected);
    for (std::size_t i = 0; i < waiting.missing.size(); ++i) {
        text += (i == 0 ? ", missing node " : ", node ") + std::to_string(waiting.missing[i]);
    }
    int unlisted = waiting.expected - waiting.joined - static_cast<int>(waiting.missing.size());
    if (unlisted > 0) text += " and " + std::to_string(unlisted) + " more";
    return text;
}

std::string to_text(const Failure& failure) {
    const std::string node = node_text(failure.node_rank, failure.host);
    switch (failure.kind) {
        case Failure::Kind::signalled:
            return "signal " + std::to_string(failure.signal) + " to the agent of " + node;
        case Failure::Kind::node_lost: return node + " was lost";
        case Failure::Kind::worker_failed: break;
    }
    const std::string end = failure.signal != 0 ? "signal " + std::to_string(failure.signal)
                                                : "exit code " + std::to_string(failure.exit_code);
    const std::string worker = "rank " + std::to_string(failure.rank) + " on " + node + ": ";
    if (failure.witness < 0) return worker + end;
    return worker + failure.accusation + ", says rank " + std::to_string(failure.witness) + " (" + end + ")";
}

std::string to_text(const Restarting& restarting) {
    std::string text = to_text(restarting.cause) + "; restart " + std::to_string(restarting.restart) +
                       " of " + std::to_string(restarting.max_restarts);
    if (restarting.delay_ms > 0) text += " in " + std::to_string(restarting.delay_ms) + " ms";
    return text;
}

std::string node_text(int node_rank, const std::string& host) {
    return "node " + std::to_string(node_rank) + " (" + host + ")";
}

}  // namespace ddprun
