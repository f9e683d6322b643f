#include "collectives/grad_buckets.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "collectives/bucket_plan.hpp"
#include "rendezvous/system/own_process.hpp"

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

namespace {

// Missing parameters that a message names.
constexpr std::size_t kMostNamed = 8;

[[noreturn]] void refuse_gradients(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "GradBuckets: " + what);
}

template <class T>
BucketPlan plan_for(std::span<const std::size_t> sizes, const GradBucketsOptions& options) {
    if (options.first_bucket_bytes == 0) refuse_gradients("first_bucket_bytes is 0");
    if (options.bucket_bytes == 0) refuse_gradients("bucket_bytes is 0");
    if (!is_defined(options.compression, data_type_of<T>()))
        refuse_gradients("only gradients of float can be compressed");
    const auto elements = [](std::size_t bytes) { return (bytes + sizeof(T) - 1) / sizeof(T); };
    return plan_buckets(sizes, elements(options.first_bucket_bytes), elements(options.bucket_bytes));
}

}  // namespace

template <class T>
GradBuckets<T>::GradBuckets(Communicator& communicator, std::span<const std::size_t> sizes,
                            const GradBucketsOptions& options)
    : communicator_(communicator),
      process_(this_process()),
      options_(options),
      plan_(plan_for<T>(sizes, options)),
      turns_(plan_),
      gradients_(communicator.allocate<T>(plan_.elements())),
      works_(plan_.buckets.size()) {}

template <class T>
GradBuckets<T>::~GradBuckets() {
    for (const Work& work : works_) {
        try {
            work.wait();
        } catch (const CollectiveError&) {
            // Nobody asked how it ended; later calls of the communicator tell.
        }
    }
}

template <class T>
std::span<T> GradBuckets<T>::gradient(std::size_t parameter) {
    if (parameter >= parameters())
        refuse_gradients(fmt::format("parameter {} is not below their number, {}", parameter, parameters()));
    const std::size_t begin = plan_.offsets[parameter];
    return gradients_.span().subspan(begin, plan_.offsets[parameter + 1] - begin);
}

template <class T>
void GradBuckets<T>::require_own_process() const {
    if (process_ != this_process())
        refuse_gradients("they belong to another process, which this one was forked from");
}

template <class T>
void GradBuckets<T>::mark_ready(std::size_t parameter) {
    require_own_process();
    gradient(parameter);
    if (!turns_.mark_ready(parameter))
        refuse_gradients(fmt::format("parameter {} is ready already in this step", parameter));
    const ReduceOp op = options_.average ? ReduceOp::avg : ReduceOp::sum;
    for (std::size_t next = turns_.take_next(); next < buckets(); next = turns_.take_next()) {
        const BucketPlan::Bucket& range = plan_.buckets[next];
        works_[next] = communicator_.async().all_reduce(gradients_.span().subspan(range.offset, range.size),
                                                        op, options_.compression);
    }
}

template <class T>
void GradBuckets<T>::wait_all() {
    require_own_process();
    if (!turns_.all_taken()) {
        std::string names;
        for (const std::size_t parameter : turns_.not_ready(kMostNamed))
            names += fmt::format(" {}", parameter);
        refuse_gradients("wait_all while gradients are not ready, among them of parameter" + names);
    }
    for (std::size_t bucket = 0; bucket < buckets(); ++bucket) works_[bucket].wait();
    turns_.reset();
}

template class GradBuckets<float>;
template class GradBuckets<double>;

}  // namespace ddprun
