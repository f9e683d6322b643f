// GradBuckets: the gradients of a model, summed or averaged over all ranks while the backward pass still
// computes: what PyTorch's DistributedDataParallel does. Public; standard library only.
//
//   ddprun::GradBuckets<float> gradients(comm, sizes);       // elements of each parameter, in forward order
//   for (each step) {
//       for (i = last parameter … first) {
//           … compute the gradient of parameter i into gradients.gradient(i) …
//           gradients.mark_ready(i);                         // starts a bucket's all_reduce when it is full
//       }
//       gradients.wait_all();                                // now gradient(i) is the mean over all ranks
//       … update the parameters …
//   }
//
// To accumulate over several batches, add to gradient(i) and call mark_ready only in the last of them.
//
// Every rank makes a GradBuckets with the same sizes and options; ranks that disagree get a `mismatch`.
// Gradients may become ready in any order; buckets are reduced in the same order on all ranks. Between
// mark_ready(i) and wait_all() gradient(i) must not be touched. An object is for one thread at a time, the
// one that uses the communicator. The communicator may be used for other things, too, by all ranks alike; it
// must stay where it is and outlive the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// plan_buckets() says which gradients are reduced together, BucketTurns when a bucket's turn comes. Pure.
//
// The backward pass makes gradients from the last parameter to the first, so buckets are filled in that
// order. The first to be full is small, so communication begins early. Every rank starts its buckets in the
// same order, whatever the order in which its gradients become ready. Source of both ideas: PyTorch's
// DistributedDataParallel (S. Li et al., "PyTorch Distributed", VLDB 2020).

// BucketPlan: which parameters each bucket has. All gradients lie one after the other in the order of the
// parameters; a bucket is a range of them.
struct BucketPlan {
    struct Bucket {
        std::size_t first = 0;  // parameters [first, end)
        std::size_t end = 0;
        std::size_t offset = 0;  // of the bucket's first element, in elements
        std::size_t size = 0;    // elements
    };

    std::vector<Bucket> buckets;         // in the order in which they are reduced: the last parameters first
    std::vector<std::size_t> bucket_of;  // by parameter
    std::vector<std::size_t> offsets;    // by parameter, in elements; one more: the end of all

    std::size_t parameters() const noexcept { return bucket_of.size(); }
    std::size_t elements() const noexcept { return offsets.back(); }
};

// Makes a plan: a bucket takes parameters until it has `first_limit` elements, the second and later ones
// `limit`; at least one parameter each. Limits are at least 1.
BucketPlan plan_buckets(std::span<const std::size_t> sizes, std::size_t first_limit, std::size_t limit);

// BucketTurns: which gradients of one step are ready, and which buckets may begin.
class BucketTurns {
  public:
    // Borrows the plan.
    explicit BucketTurns(const BucketPlan& plan);

    // Returns false if the parameter is ready already.
    bool mark_ready(std::size_t parameter);
    // Returns the next bucket, in the plan's order, if it is ready; else plan.buckets.size(). Each bucket is
    // returned once in a step.
    std::size_t take_next();
    bool all_taken() const noexcept { return next_ == missing_.size(); }
    // Returns the parameters that are not ready, ascending, `most` at most.
    std::vector<std::size_t> not_ready(std::size_t most) const;
    // Begins the next step.
    void reset();

  private:
    const BucketPlan& plan_;
    std::vector<bool> ready_;           // by parameter
    std::vector<std::size_t> missing_;  // by bucket: parameters that are not ready
    std::size_t next_ = 0;
};

// GradCompression: the name of Compression where it concerns gradients.
using GradCompression = Compression;

struct GradBucketsOptions {
    // first_bucket_bytes: when the first bucket has that many bytes of gradients, it is closed; later ones at
    // bucket_bytes.
    std::size_t first_bucket_bytes = std::size_t{1} << 20;
    std::size_t bucket_bytes = std::size_t{25} << 20;
    Compression compression = Compression::none;  // of what travels between hosts; of float only
    bool average = true;                          // else the sum
};

// GradBuckets: T is float or double.
template <class T>
class GradBuckets {
  public:
    // Throws invalid_argument for a bucket size of 0, or compression of doubles; and what
    // Communicator::allocate() throws, which gives the gradients' memory.
    GradBuckets(Communicator& communicator, std::span<const std::size_t> sizes,
                const GradBucketsOptions& options = {});
    GradBuckets(const GradBuckets&) = delete;
    GradBuckets& operator=(const GradBuckets&) = delete;
    // Waits for the reductions that were started.
    ~GradBuckets();

    // Returns where the parameter's gradient is: zeros at first, kept from step to step.
    std::span<T> gradient(std::size_t parameter);
    // Returns all gradients, one after the other in the order of the parameters.
    std::span<T> gradients() { return gradients_.span(); }
    std::size_t parameters() const noexcept { return plan_.parameters(); }
    std::size_t buckets() const noexcept { return plan_.buckets.size(); }

    // Marks a gradient as ready, and starts the buckets that become full. Throws invalid_argument for a
    // parameter that is not there or is ready already.
    void mark_ready(std::size_t parameter);
    // Returns when all gradients are reduced, and begins the next step. Throws invalid_argument, naming some,
    // while gradients are missing, and the CollectiveError of a reduction that failed.
    void wait_all();

  private:
    // Refuses in a forked child.
    void require_own_process() const;

    Communicator& communicator_;
    const std::uint32_t process_;  // the process that made this object
    GradBucketsOptions options_;
    BucketPlan plan_;
    BucketTurns turns_;
    SharedBuffer<T> gradients_;
    std::vector<Work> works_;  // by bucket
};

extern template class GradBuckets<float>;
extern template class GradBuckets<double>;

}  // namespace ddprun
#pragma GCC visibility pop
