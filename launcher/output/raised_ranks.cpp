#include "launcher/output/raised_ranks.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
inline namespace launch {

void RaisedRanks::take(int rank, const RaisedWords& words, TimePoint now) {
    std::lock_guard lock(mutex_);
    Raised& raised = ranks_[rank];
    if (raised.count != words.count()) raised = {now, words.count(), {}};
    raised.text = words.text();
}

void RaisedRanks::clear() {
    std::lock_guard lock(mutex_);
    ranks_.clear();
}

std::vector<RaisedRank> RaisedRanks::since(TimePoint from) const {
    std::vector<std::pair<TimePoint, RaisedRank>> found;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [rank, raised] : ranks_) {
            if (raised.begun >= from) found.push_back({raised.begun, {rank, raised.text}});
        }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<RaisedRank> ranks;
    for (auto& [begun, raised] : found) ranks.push_back(std::move(raised));
    return ranks;
}

}  // namespace launch
}  // namespace ddprun
