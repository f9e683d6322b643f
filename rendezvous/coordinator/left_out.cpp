#include "rendezvous/coordinator/left_out.hpp"

#include <fmt/core.h>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/job/exit_code.hpp"

namespace ddprun::inline job {

namespace {

std::string key_of_node(const Hello& hello) {
    return hello.node_rank == kUnnumbered ? fmt::format("{} {}", hello.host, hello.pid)
                                          : std::to_string(hello.node_rank);
}

}  // namespace

void UnfitNodes::learn(const Hello& hello, bool is_host) {
    const std::string key = key_of_node(hello);
    nodes_.erase(key);
    if (is_host) host_.reset();
    if (hello.unfit.empty()) return;
    UnfitNode node{hello.node_rank == kUnnumbered ? hello.host : node_text(hello.node_rank, hello.host),
                   hello.unfit};
    if (is_host) {
        host_ = std::move(node);
    } else {
        nodes_[key] = std::move(node);
    }
}

std::optional<Refused> UnfitNodes::fault(int nnodes, int least) const {
    const UnfitNode* culprit = host_ ? &*host_ : nullptr;
    if (culprit == nullptr && nnodes - left_out() < least) culprit = &nodes_.begin()->second;
    if (culprit == nullptr) return std::nullopt;
    std::string reason =
        fmt::format("there is no job, since {} is not fit for it (--check): {}", culprit->name, culprit->why);
    if (host_) {
        reason += "; it hosts the job, which cannot do without it";
    } else if (left_out() > 1) {
        reason += fmt::format("; and {} more", left_out() - 1);
    }
    return Refused{std::move(reason), kExitSystem};
}

Refused UnfitNodes::refusal(const Hello& hello) {
    return {"it is not fit for the job (--check): " + hello.unfit, kExitSystem};
}

std::string Exclusion::reason(int place, const std::string& host) const {
    const int rounds = rounds_of(place, host);
    return fmt::format("its workers failed first in {} round{} (--exclude-after {})", rounds,
                       rounds == 1 ? "" : "s", after_);
}

}  // namespace ddprun::inline job
