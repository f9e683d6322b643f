#include "rendezvous/control/coordinator_claims.hpp"

#include <algorithm>

namespace ddprun {
inline namespace job {

bool CoordinatorClaims::accept(const ControlMessage& message) {
    return std::visit([this](const auto& one) { return accept_one(one); }, message);
}

bool CoordinatorClaims::accept_one(const RoundReady& ready) {
    const std::int64_t most = std::int64_t{ready.group_world_size} * kMaxWorkersPerNode;
    const bool has_place = ready.group_world_size <= nnodes_ && ready.group_rank < ready.group_world_size &&
                           ready.coordinator_rank < ready.group_world_size;
    const bool has_ranks = ready.world_size <= most && ready.base_rank <= ready.world_size - workers_ &&
                           ready.role_world_size <= ready.world_size &&
                           ready.role_base_rank <= ready.role_world_size - workers_;
    const bool goes_on = ready.job_id != round_.job_id || ready.round > round_.round;
    if (!has_place || !has_ranks || !goes_on) return false;
    round_ = ready;
    ends_ = 0;
    return true;
}

// Nobody has told this agent how many ranks there are in a round that began without it.
bool CoordinatorClaims::accept_one(const RankEnds& ends) {
    const std::int64_t most = ends.round == round_.round ? std::int64_t{round_.world_size}
                                                         : std::int64_t{nnodes_} * kMaxWorkersPerNode;
    ends_ += ends.ends.size();
    return wants_ends_ && ends_ <= static_cast<std::size_t>(most);
}

bool CoordinatorClaims::accept_one(const Waiting& waiting) const {
    return waiting.expected <= nnodes_ && waiting.at_most <= nnodes_ &&
           std::all_of(waiting.missing.begin(), waiting.missing.end(),
                       [this](int node) { return node < nnodes_; });
}

bool CoordinatorClaims::accept_one(const MemberList& list) const { return list.size <= nnodes_; }

}  // namespace job
}  // namespace ddprun
