#include "rendezvous/coordinator/job_end.hpp"

#include <algorithm>

namespace ddprun {

void add_ends(Finish& finish, const std::vector<RankEnd>& ends, const std::optional<Failure>& cause) {
    const bool by_worker = cause && cause->kind == Failure::Kind::worker_failed;
    std::vector<RankEnd> others;
    for (const RankEnd& end : ends) {
        if (by_worker && end.rank == cause->rank) continue;
        switch (end.manner) {
            case RankEnd::Manner::succeeded: ++finish.succeeded; break;
            case RankEnd::Manner::failed: ++finish.failed_too; break;
            case RankEnd::Manner::stopped: ++finish.stopped; break;
            case RankEnd::Manner::lost: ++finish.lost; break;
        }
        if (end.manner != RankEnd::Manner::succeeded) others.push_back(end);
    }
    // Those that failed by themselves are the better evidence.
    std::stable_partition(others.begin(), others.end(),
                          [](const RankEnd& end) { return end.manner == RankEnd::Manner::failed; });
    if (others.size() > kMaxOthersListed) others.resize(kMaxOthersListed);
    finish.others = std::move(others);
}

}  // namespace ddprun
