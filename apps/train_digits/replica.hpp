// A Replica is what one rank holds and does in data-parallel training: its model, and its part of each step. The sums over
// ranks are made outside:
//
//     replica.begin_epoch(epoch);
//     for (step = 0; step < replica.steps_per_epoch(); ++step) {
//         replica.compute(step, gradients);    // this rank's part
//         … gradients become the sums over all ranks …
//         replica.apply(step, gradients);
//     }
//     replica.own_result();                    // … becomes the mean over all ranks …
//
// The sums are divided by the size of the *global* batch, so the number of ranks changes nothing but the order of
// additions. Pure.
//
// The network is a small multi-layer perceptron: inputs, one hidden layer with ReLU, outputs with softmax and cross-entropy.
// All parameters are one flat buffer of floats, and their gradients one of doubles, in the same order, so that one all-reduce
// moves them:
//     weights 1 [inputs][hidden], biases 1 [hidden], weights 2 [hidden][outputs], biases 2 [outputs]
// The gradients of one image are floats; in doubles their sums are so nearly exact that the order of additions, and with it
// the number of ranks, hardly ever shows in the trained floats. The order is input-major, so that the inner loops run over
// contiguous memory and become vector instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/train_digits/digits.hpp"

namespace ddprun::inline app {

// SplitMix64 makes random numbers, the same bits on every machine; the distributions of standard libraries differ. Not for
// secrets. Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
class SplitMix64 {
  public:
    explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    // Evenly from [-limit, limit), from the 24 bits that a float holds exactly.
    float symmetric(float limit) {
        const auto bits = static_cast<float>(next() >> 40);
        return (bits * 0x1p-23f - 1.0f) * limit;
    }

  private:
    std::uint64_t state_;
};

struct MlpShape {
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t outputs = 0;

    // The four parts' sizes, in the order above.
    std::array<std::size_t, 4> parameter_sizes() const {
        return {inputs * hidden, hidden, hidden * outputs, outputs};
    }
    std::size_t parameter_count() const { return (inputs + 1) * hidden + (hidden + 1) * outputs; }
    bool operator==(const MlpShape&) const = default;
};

// Weights are drawn evenly from ±sqrt(6 / fan-in) by SplitMix64, biases are 0: the same bits on every machine.
// Source: K. He et al., "Delving Deep into Rectifiers", 2015.
std::vector<float> initial_parameters(const MlpShape& shape, std::uint64_t seed);

// An Outcome is what one image contributed to the sums over a batch.
struct Outcome {
    float loss = 0;        // cross-entropy in nats, -ln of the probability given to the right class
    bool correct = false;  // the right class was the most probable one
};

// An Mlp works on one image at a time. It holds only scratch memory: each thread has its own.
class Mlp {
  public:
    explicit Mlp(const MlpShape& shape);

    const MlpShape& shape() const { return shape_; }

    // The class with the highest probability, the lowest one among equals. `image` holds shape().inputs
    // values.
    std::size_t predict(std::span<const float> parameters, std::span<const float> image);

    // Adds the loss's derivatives by each parameter for this image to `gradients`. label < shape().outputs.
    Outcome add_gradients(std::span<const float> parameters, std::span<const float> image, std::size_t label,
                          std::span<double> gradients);

  private:
    void forward(std::span<const float> parameters, std::span<const float> image);
    void backward(std::span<const float> parameters, std::span<const float> image,
                  std::span<double> gradients);

    MlpShape shape_;
    std::vector<float> hidden_;   // after ReLU
    std::vector<float> outputs_;  // before softmax; in add_gradients then the loss's derivatives by them
    std::vector<float> hidden_gradient_;  // the loss's derivatives by the hidden layer before ReLU
};

// The TrainingPlan decides the outcome of a training; it must be the same on every rank.
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
    double accuracy = 0;  // the same, 0 … 1
};

// StepSums add up some of a rank's images.
struct StepSums {
    double loss = 0;
    std::size_t correct = 0;
    std::size_t images = 0;
};

class Replica {
  public:
    // `train` must outlive the replica. 0 <= rank < world_size.
    Replica(const Digits& train, const TrainingPlan& plan, int rank, int world_size);

    std::size_t steps_per_epoch() const { return images_.steps_per_epoch(); }
    void begin_epoch(int epoch);  // counted from 0

    // `gradients`, one for each parameter, become this rank's sums over its images of the step.
    StepSums compute(std::size_t step, std::span<double> gradients);

    // Moves the parameters by what compute made, by now the sums over all ranks.
    void apply(std::size_t step, std::span<const double> gradients);

    // The means over this rank's images since begin_epoch (zero before the first), and how many those are.
    EpochResult own_result() const;
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

// Counts this rank's images (rank, rank + world_size, …) that the parameters name rightly.
std::size_t count_correct(const MlpShape& shape, std::span<const float> parameters, const Digits& digits,
                          int rank, int world_size);

}  // namespace ddprun::inline app
