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

std::vector<RankEnds> as_messages(int round, std::span<const RankEnd> ends) {
    std::vector<RankEnds> messages;
    for (std::size_t at = 0; at < ends.size(); at += kMaxEndsInMessage) {
        const auto some = ends.subspan(at, std::min(kMaxEndsInMessage, ends.size() - at));
        messages.push_back({round, {some.begin(), some.end()}});
    }
    return messages;
}

}  // namespace ddprun
