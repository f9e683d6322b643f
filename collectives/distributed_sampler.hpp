// DistributedSampler: which samples of a data set each rank works on: PyTorch's
// torch.utils.data.DistributedSampler in C++.
//
// Every rank makes a sampler with the same size, seed and options and its own rank; the ranks then agree
// without talking. An epoch has one order of all samples: 0 … size-1, or, with shuffle, exactly
// torch.randperm(size, generator=torch.Generator().manual_seed(seed + epoch)). The order is brought to
// total_size() entries, a multiple of the number of replicas, and rank r gets entries r, r + n, r + 2n, …
// - drop_last = false: the order is repeated from its start until it is long enough (for 10 samples and 4
//   replicas: 2 entries appear twice), so every sample is seen.
// - drop_last = true: the tail is cut off (2 samples are left out in this epoch).
// Entry j of rank r is therefore entry r + j·n of the order; entries with r + j·n >= size are repetitions.
//
// A sampler is a plain value: no clock, no I/O, no shared state. An object is for one thread at a time.
// Source of the semantics: PyTorch 1.13 torch/utils/data/distributed.py; later versions kept them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

struct DistributedSamplerOptions {
    bool shuffle = true;
    std::uint64_t seed = 0;  // must be the same on every rank
    bool drop_last = false;
};

class DistributedSampler {
  public:
    // kShuffleSizeLimit: a shuffled set must hold fewer samples. From here on PyTorch's own versions draw
    // different orders.
    static constexpr std::size_t kShuffleSizeLimit = UINT32_MAX / 20;

    // Throws std::invalid_argument unless num_replicas >= 1, 0 <= rank < num_replicas and, with shuffle,
    // size < kShuffleSizeLimit. A size of 0 is allowed and gives no indices.
    DistributedSampler(std::size_t size, int num_replicas, int rank, DistributedSamplerOptions options = {});

    // Chooses the order of the next indices(). Without a call every epoch has the order of epoch 0.
    void set_epoch(std::uint64_t epoch);

    // Returns this rank's samples in the current epoch, num_samples() of them; each < size().
    std::vector<std::size_t> indices() const;

    std::size_t size() const { return size_; }                // samples in the data set
    std::size_t num_samples() const { return num_samples_; }  // entries of each rank: equal on all ranks
    std::size_t total_size() const { return num_samples_ * num_replicas_; }

  private:
    std::size_t size_;
    std::size_t num_replicas_;
    std::size_t rank_;
    DistributedSamplerOptions options_;
    std::size_t num_samples_;
    std::uint64_t epoch_ = 0;
};

}  // namespace ddprun
#pragma GCC visibility pop
