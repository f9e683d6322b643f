#include "rendezvous/control/control_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace job {

std::string to_text(const Waiting& waiting) {
    if (waiting.at_most > waiting.expected) {
        if (waiting.joined < waiting.expected)
            return fmt::format("joined {}, the job needs {} to {} nodes{}", waiting.joined, waiting.expected,
                               waiting.at_most,
                               waiting.missing_hosts.empty() ? "" : ", missing " + missing_text(waiting));
        return fmt::format("joined {} of at most {} nodes; others may still come (--last-call {:g})",
                           waiting.joined, waiting.at_most, static_cast<double>(waiting.last_call_ms) / 1000);
    }
    const std::string text = fmt::format("joined {}/{}", waiting.joined, waiting.expected);
    return waiting.expected == waiting.joined ? text
                                              : fmt::format("{}, missing {}", text, missing_text(waiting));
}

std::string missing_text(const Waiting& waiting) {
    std::vector<std::string> names = waiting.missing_hosts;
    if (!waiting.missing.empty()) names.resize(waiting.missing.size());
    for (std::size_t i = 0; i < waiting.missing.size(); ++i)
        names[i] = names[i].empty() ? fmt::format("node {}", waiting.missing[i])
                                    : node_text(waiting.missing[i], names[i]);
    const std::size_t listed = std::min(kMaxMissingListed, names.size());
    std::string text;
    for (std::size_t i = 0; i < listed; ++i) text += (i == 0 ? "" : ", ") + names[i];
    const int all = std::max(waiting.expected - waiting.joined, waiting.hosts_missing);
    const int unlisted = all - static_cast<int>(listed);
    if (listed == 0) return fmt::format("{} node{}", unlisted, unlisted == 1 ? "" : "s");
    return unlisted > 0 ? fmt::format("{} and {} more", text, unlisted) : text;
}

std::string present_text(const Waiting& waiting) {
    std::string text;
    const char* before = "; there: ";
    for (const std::string& node : waiting.present) text += std::exchange(before, ", ") + node;
    return text;
}

std::string to_text(const Failure& failure) {
    const std::string node = node_text(failure.node_rank, failure.host);
    switch (failure.kind) {
        case Failure::Kind::signalled:
            if (!failure.message.empty()) return failure.message;
            return fmt::format("signal {} to the agent of {}", failure.signal, node);
        case Failure::Kind::node_lost: return node + " was lost";
        case Failure::Kind::overdue:
            return fmt::format("rank {} on {}: {}", failure.rank, node, failure.message);
        case Failure::Kind::hang: return "it hangs: " + failure.message;
        case Failure::Kind::resized: return fmt::format("a node ({}) has come", failure.host);
        case Failure::Kind::worker_failed: break;
    }
    const std::string end = failure.signal != 0 ? fmt::format("signal {}", failure.signal)
                                                : fmt::format("exit code {}", failure.exit_code);
    if (failure.witness < 0) {
        const std::string why = failure.message.empty() ? "" : fmt::format(" ({})", failure.message);
        return fmt::format("rank {} on {}: {}{}", failure.rank, node, end, why);
    }
    return fmt::format("rank {} on {}: {}, says rank {} ({})", failure.rank, node, failure.accusation,
                       failure.witness, end);
}

std::string to_text(const Restarting& restarting) {
    const std::string next =
        restarting.resize > 0
            ? fmt::format("another round with {} node{} (resize {}) follows", restarting.nodes,
                          restarting.nodes == 1 ? "" : "s", restarting.resize)
            : fmt::format("restart {} of {}", restarting.restart, restarting.max_restarts);
    const std::string text = fmt::format("{}; {}", to_text(restarting.cause), next);
    return restarting.delay_ms > 0 ? fmt::format("{} in {} ms", text, restarting.delay_ms) : text;
}

std::string loss_text(const Failure& failure) {
    return fmt::format("{} lost: {}", node_text(failure.node_rank, failure.host), failure.message);
}

std::string silence_text(std::chrono::milliseconds limit) {
    return fmt::format("no heartbeat for {:g} s", std::chrono::duration<double>(limit).count());
}

std::string node_text(int node_rank, const std::string& host) {
    return node_rank < 0 ? host : fmt::format("node {} ({})", node_rank, host);
}

Refused secret_is_asked_for() {
    return {.reason = "node 0 asks for the job's secret: set DDPRUN_SECRET_FILE",
            .exit_code = kExitNotAdmitted,
            .other_job = "asks for its job's secret"};
}

Refused secret_is_of_no_use(Proof proof, const std::string& place) {
    const bool has_none = proof == Proof::no_key;
    const std::string other_job = has_none ? "has no secret" : "has another secret, or another --rdzv-id";
    return {.reason = fmt::format(
                "what listens at {} says that it {}, and has not proven to be node 0; all nodes need "
                "one secret (DDPRUN_SECRET_FILE) and one --rdzv-id, which is part of the key",
                place, other_job),
            .exit_code = kExitNotAdmitted,
            .other_job = other_job};
}

}  // namespace job
}  // namespace ddprun
