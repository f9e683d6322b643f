#include "collectives/distributed_sampler.hpp"

#include <fmt/core.h>

#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

namespace ddprun {

namespace {

// torch.randperm on the CPU: a forward Fisher-Yates shuffle that draws 32 bits from a Mersenne Twister for
// each place but the last and reduces them by %. The generator keeps the low 32 bits of its seed, as mt19937
// does.
std::vector<std::size_t> random_permutation(std::size_t size, std::uint64_t seed) {
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 generator(static_cast<std::uint32_t>(seed));
    for (std::size_t i = 0; i + 1 < size; ++i) {
        std::swap(order[i], order[i + generator() % (size - i)]);
    }
    return order;
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t size, int num_replicas, int rank,
                                       DistributedSamplerOptions options)
    : size_(size), options_(options) {
    const auto require = [](bool good, const std::string& what) {
        if (!good) throw std::invalid_argument("DistributedSampler: " + what);
    };
    require(num_replicas >= 1, fmt::format("num_replicas is {}, must be at least 1", num_replicas));
    require(rank >= 0 && rank < num_replicas,
            fmt::format("rank is {}, must be in 0..{}", rank, num_replicas - 1));
    require(!options.shuffle || size < kShuffleSizeLimit,
            fmt::format("{} samples, fewer than {} can be shuffled", size, +kShuffleSizeLimit));
    num_replicas_ = static_cast<std::size_t>(num_replicas);
    rank_ = static_cast<std::size_t>(rank);
    const bool uneven = size % num_replicas_ != 0;
    num_samples_ = size / num_replicas_ + (uneven && !options.drop_last ? 1 : 0);
}

void DistributedSampler::set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

std::vector<std::size_t> DistributedSampler::indices() const {
    std::vector<std::size_t> order;
    if (options_.shuffle) order = random_permutation(size_, options_.seed + epoch_);

    std::vector<std::size_t> mine(num_samples_);
    for (std::size_t j = 0; j < num_samples_; ++j) {
        const std::size_t place = (rank_ + j * num_replicas_) % size_;
        mine[j] = options_.shuffle ? order[place] : place;
    }
    return mine;
}

}  // namespace ddprun
