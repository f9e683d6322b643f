// Replica: what one rank holds and does in data-parallel training. Pure: the sums over ranks are made
// outside.
//
// An epoch is one pass over the training images in the order of DistributedSampler, cut into steps of
// batch_size images, the last step taking what is left. In a step every rank works on its own images of the
// global batch; the gradients are summed over the ranks and divided by the size of the *global* batch, so the
// number of ranks changes nothing but the order of additions. The driver of it all:
//
//     replica.begin_epoch(epoch);
//     for (step = 0; step < replica.steps_per_epoch(); ++step) {
//         std::span<double> sums = replica.compute(step);   // this rank's part
//         … sums become the sum over all ranks …
//         replica.apply(step);
//     }
//     replica.epoch_result();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/mlp.hpp"
#include "collectives/distributed_sampler.hpp"

namespace ddprun {

// What decides the outcome of a training; must be the same on every rank.
struct TrainingPlan {
    std::size_t hidden = 128;
    std::size_t batch_size = 32;  // images in a step, over all ranks
    int epochs = 60;
    float learning_rate = 0.05f;
    float momentum = 0.9f;   // stochastic gradient descent: velocity = momentum · velocity + gradient
    std::uint64_t seed = 0;  // of the first parameters and of the order of the images
};

MlpShape shape_of(const TrainingPlan& plan);

struct EpochResult {
    double loss = 0;      // mean over the images, each at the step that used it
    double accuracy = 0;  // likewise, 0 … 1
};

class Replica {
  public:
    // `train` must outlive the replica. 0 <= rank < world_size.
    Replica(const Digits& train, const TrainingPlan& plan, int rank, int world_size);

    std::size_t steps_per_epoch() const;

    // Epochs are numbered from 0; each has its own order.
    void begin_epoch(int epoch);

    // This rank's sums over its images of the step: all gradients, then the loss, then the number of right
    // answers. The memory is the replica's; valid until the next call of compute.
    std::span<double> compute(std::size_t step);

    // Takes what compute returned, by now the sums over all ranks, and moves the parameters.
    void apply(std::size_t step);

    // Of the steps applied since begin_epoch; all zero before the first.
    EpochResult epoch_result() const;

    std::span<float> parameters() { return parameters_; }
    std::span<const float> parameters() const { return parameters_; }

  private:
    std::size_t images_in(std::size_t step) const;

    const Digits& train_;
    TrainingPlan plan_;
    std::size_t rank_;
    std::size_t world_size_;
    DistributedSampler sampler_;
    Mlp mlp_;
    std::vector<float> parameters_;
    std::vector<float> velocity_;
    std::vector<double> sums_;                // gradients, loss, right answers
    std::array<float, kImagePixels> seen_{};  // the image at hand, augmented
    std::vector<std::size_t> indices_;        // this rank's in the epoch
    int epoch_ = 0;
    double epoch_loss_ = 0;
    double epoch_correct_ = 0;
    std::size_t epoch_images_ = 0;
};

// How many of this rank's images (rank, rank + world_size, …) the parameters name rightly.
std::size_t count_correct(const MlpShape& shape, std::span<const float> parameters, const Digits& digits,
                          int rank, int world_size);

}  // namespace ddprun
