#include "rendezvous/coordinator/agent_claims.hpp"

#include <algorithm>

#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace job {
namespace {

bool is_own(const JobNode& node, int rank, int local_rank) {
    return node.has_rank(rank) && local_rank < node.hello.local_world_size;
}

struct Claims {
    const JobNode& node;

    bool operator()(const WorkerFailed& failed) const {
        return is_own_failure(failed.failure) || is_hang(failed.failure);
    }
    bool operator()(const WorkersGone& gone) const {
        return (!gone.failure || is_own_failure(*gone.failure)) && are_own(gone.others) && are_own(gone.left);
    }
    bool operator()(const WorkerDying& dying) const { return node.has_rank(dying.rank); }
    bool operator()(const RankSucceeded& succeeded) const { return node.has_rank(succeeded.rank); }
    bool operator()(const RankEnds& ends) const {
        return std::all_of(ends.ends.begin(), ends.ends.end(),
                           [this](const RankEnd& end) { return is_own(node, end.rank, end.local_rank); });
    }
    bool operator()(const StillRunning& running) const {
        return running.count <= node.hello.local_world_size && are_own(running.ranks);
    }
    template <typename Other>
    bool operator()(const Other&) const {
        return true;
    }

    bool are_own(const std::vector<RankRange>& ranks) const {
        return std::all_of(ranks.begin(), ranks.end(), [this](const RankRange& range) {
            return node.has_rank(range.first) && node.has_rank(range.last);
        });
    }
    bool are_own(const std::vector<RanksDoing>& doings) const {
        return std::all_of(doings.begin(), doings.end(),
                           [this](const RanksDoing& one) { return are_own(one.ranks); });
    }
    bool is_own_failure(const Failure& failure) const {
        return failure.kind == Failure::Kind::worker_failed && is_own(node, failure.rank, failure.local_rank);
    }
    // Its agent is the one that watches all nodes.
    bool is_hang(const Failure& failure) const {
        return failure.kind == Failure::Kind::hang && node.hello.node_rank == 0;
    }
};

}  // namespace

bool can_be_true(const ControlMessage& message, const JobNode& from) {
    return std::visit(Claims{from}, message);
}

}  // namespace job
}  // namespace ddprun
