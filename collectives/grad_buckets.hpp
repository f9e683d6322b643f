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
// Every rank makes one with the same sizes and options; ranks that disagree get a `mismatch`. Gradients may
// become ready in any order; buckets are reduced in the same order on all ranks. Between mark_ready(i) and
// wait_all() gradient(i) must not be touched. One thread at a time, the one that uses the communicator; the
// communicator may be used for other things, too, by all ranks alike, and must stay where it is and outlive
// this object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/bucket_plan.hpp"
#include "collectives/communicator.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// Its name where it concerns gradients.
using GradCompression = Compression;

struct GradBucketsOptions {
    // A bucket is closed when it has that many bytes of gradients.
    std::size_t first_bucket_bytes = std::size_t{1} << 20;
    std::size_t bucket_bytes = std::size_t{25} << 20;
    Compression compression = Compression::none;  // of what travels between hosts; of float only
    bool average = true;                          // else the sum
};

// T is float or double.
template <class T>
class GradBuckets {
  public:
    // Throws invalid_argument for a bucket size of 0, or compression of doubles; and what
    // Communicator::allocate() throws, from where the gradients' memory comes.
    GradBuckets(Communicator& communicator, std::span<const std::size_t> sizes,
                const GradBucketsOptions& options = {});
    GradBuckets(const GradBuckets&) = delete;
    GradBuckets& operator=(const GradBuckets&) = delete;
    // Waits for what it has started.
    ~GradBuckets();

    // Returns where parameter i's gradient is: zeros at first, kept from step to step.
    std::span<T> gradient(std::size_t parameter);
    // All of them, one after the other in the order of the parameters.
    std::span<T> gradients() { return gradients_.span(); }
    std::size_t parameters() const noexcept { return plan_.parameters(); }
    std::size_t buckets() const noexcept { return plan_.buckets.size(); }

    // Throws invalid_argument for a parameter that is not there or is ready already.
    void mark_ready(std::size_t parameter);
    // Returns when all gradients are reduced, and begins the next step. Throws invalid_argument, naming some,
    // while gradients are missing, and the CollectiveError of a reduction that failed.
    void wait_all();

  private:
    // Refuses in a forked child.
    void require_own_process() const;

    Communicator& communicator_;
    const std::uint32_t process_;  // whose it is
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
