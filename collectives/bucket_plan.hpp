// Bucket plan: which gradients are reduced together, and when a bucket's turn comes. Pure.
//
// The backward pass makes gradients from the last parameter to the first, so buckets are filled in that
// order, and the first to be full is small, so that communication begins early. Every rank starts its buckets
// in the same order, whatever the order in which its gradients become ready. Source of both: PyTorch's
// DistributedDataParallel (S. Li et al., "PyTorch Distributed", VLDB 2020).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

// All gradients lie one after the other in the order of the parameters; a bucket is a range of them.
struct BucketPlan {
    struct Bucket {
        std::size_t first = 0;  // parameters [first, end)
        std::size_t end = 0;
        std::size_t offset = 0;  // of its first element
        std::size_t size = 0;    // elements
    };

    std::vector<Bucket> buckets;         // in the order in which they are reduced: the last parameters first
    std::vector<std::size_t> bucket_of;  // by parameter
    std::vector<std::size_t> offsets;    // by parameter, in elements; one more: the end of all

    std::size_t parameters() const noexcept { return bucket_of.size(); }
    std::size_t elements() const noexcept { return offsets.back(); }
};

// A bucket takes parameters until it has `first_limit` elements, the second and later ones `limit`; at least
// one parameter each. Limits are at least 1.
BucketPlan plan_buckets(std::span<const std::size_t> sizes, std::size_t first_limit, std::size_t limit);

// Which gradients of one step are ready, and which buckets may begin.
class BucketTurns {
  public:
    // Borrows the plan.
    explicit BucketTurns(const BucketPlan& plan);

    // False if it is ready already.
    bool mark_ready(std::size_t parameter);
    // The next bucket that is ready and whose turn it is; plan.buckets.size() when there is none. Each is
    // given once in a step.
    std::size_t take_next();
    bool all_taken() const noexcept { return next_ == missing_.size(); }
    // Parameters that are not ready, ascending, `most` at most.
    std::vector<std::size_t> not_ready(std::size_t most) const;
    // Begins the next step.
    void reset();

  private:
    const BucketPlan& plan_;
    std::vector<bool> ready_;           // by parameter
    std::vector<std::size_t> missing_;  // by bucket: parameters that are not ready
    std::size_t next_ = 0;
};

}  // namespace ddprun
#pragma GCC visibility pop
