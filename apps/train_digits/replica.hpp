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
//         replica.compute(step, gradients);    // this rank's part
//         … gradients become the sums over all ranks …
//         replica.apply(step, gradients);
//     }
//     replica.own_result();                    // … becomes the mean over all ranks …
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/mlp.hpp"
#include "collectives/distributed_sampler.hpp"

namespace ddprun::inline app {

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

// Over some of a rank's images.
struct StepSums {
    double loss = 0;
    std::size_t correct = 0;
    std::size_t images = 0;
};

// Which images of an epoch's steps are a rank's, and what its network sees of them. `train` must outlive it.
class EpochImages {
  public:
    EpochImages(const Digits& train, const TrainingPlan& plan, int rank, int world_size);

    std::size_t steps_per_epoch() const;
    std::size_t images_in(std::size_t step) const;  // of all ranks
    void begin_epoch(int epoch);

    using Visit = std::function<void(std::span<const float, kImagePixels> image, std::uint8_t label)>;
    void visit(std::size_t step, const Visit& visit) const;

  private:
    const Digits& train_;
    std::size_t batch_size_;
    std::uint64_t seed_;
    std::size_t rank_;
    std::size_t world_size_;
    DistributedSampler sampler_;
    std::vector<std::size_t> indices_;  // this rank's in the epoch
    int epoch_ = 0;
};

class Replica {
  public:
    // `train` must outlive the replica. 0 <= rank < world_size.
    Replica(const Digits& train, const TrainingPlan& plan, int rank, int world_size);

    std::size_t steps_per_epoch() const { return images_.steps_per_epoch(); }

    // Epochs are numbered from 0; each has its own order.
    void begin_epoch(int epoch);

    // `gradients`, one for each parameter, become this rank's sums over its images of the step. Returns their
    // part of own_result(), in sums.
    StepSums compute(std::size_t step, std::span<double> gradients);

    // Takes what compute made, by now the sums over all ranks, and moves the parameters.
    void apply(std::size_t step, std::span<const double> gradients);

    // The means over this rank's images since begin_epoch; zero before the first.
    EpochResult own_result() const;
    // How many those were.
    std::size_t own_images() const { return epoch_.images; }

    std::span<float> parameters() { return parameters_; }
    std::span<const float> parameters() const { return parameters_; }

  private:
    EpochImages images_;
    TrainingPlan plan_;
    Mlp mlp_;
    std::vector<float> parameters_;
    std::vector<float> velocity_;
    StepSums epoch_;
};

// How many of this rank's images (rank, rank + world_size, …) the parameters name rightly.
std::size_t count_correct(const MlpShape& shape, std::span<const float> parameters, const Digits& digits,
                          int rank, int world_size);

}  // namespace ddprun::inline app
