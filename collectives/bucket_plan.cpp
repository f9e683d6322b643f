#include "collectives/bucket_plan.hpp"

#include <algorithm>

namespace ddprun {

BucketPlan plan_buckets(std::span<const std::size_t> sizes, std::size_t first_limit, std::size_t limit) {
    BucketPlan plan;
    plan.bucket_of.resize(sizes.size());
    plan.offsets.push_back(0);
    for (const std::size_t size : sizes) plan.offsets.push_back(plan.offsets.back() + size);
    std::size_t end = sizes.size();
    while (end > 0) {
        const std::size_t most = plan.buckets.empty() ? first_limit : limit;
        std::size_t first = end - 1;
        while (first > 0 && plan.offsets[end] - plan.offsets[first] < most) --first;
        for (std::size_t i = first; i < end; ++i) plan.bucket_of[i] = plan.buckets.size();
        plan.buckets.push_back({first, end, plan.offsets[first], plan.offsets[end] - plan.offsets[first]});
        end = first;
    }
    return plan;
}

BucketTurns::BucketTurns(const BucketPlan& plan)
    : plan_(plan), ready_(plan.parameters()), missing_(plan.buckets.size()) {
    reset();
}

bool BucketTurns::mark_ready(std::size_t parameter) {
    if (ready_[parameter]) return false;
    ready_[parameter] = true;
    --missing_[plan_.bucket_of[parameter]];
    return true;
}

std::size_t BucketTurns::take_next() {
    if (all_taken() || missing_[next_] > 0) return missing_.size();
    return next_++;
}

std::vector<std::size_t> BucketTurns::not_ready(std::size_t most) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ready_.size() && found.size() < most; ++i) {
        if (!ready_[i]) found.push_back(i);
    }
    return found;
}

void BucketTurns::reset() {
    std::fill(ready_.begin(), ready_.end(), false);
    for (std::size_t i = 0; i < missing_.size(); ++i)
        missing_[i] = plan_.buckets[i].end - plan_.buckets[i].first;
    next_ = 0;
}

}  // namespace ddprun
