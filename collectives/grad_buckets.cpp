#include "collectives/grad_buckets.hpp"

#include <fmt/core.h>

#include <string>

#include "rendezvous/system/own_process.hpp"

namespace ddprun {
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
