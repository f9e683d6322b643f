// Mlp is a small multi-layer perceptron for the digits: pixels, one hidden layer with ReLU, classes with
// softmax and cross-entropy. Pure.
//
// The parameters are one flat buffer of floats. Each layer has a row of weights for every input and a last
// row of biases, so that the inner loops run over contiguous memory and become vector instructions:
//     [kPixels + 1][hidden], then [hidden + 1][kClasses]
//
// The sums over the images of a step are one buffer of doubles: the gradients in the same order, then the
// totals. The gradients of one image are floats, and their sums doubles, which are nearly exact. The order of
// additions, and with it the number of ranks, thus hardly ever shows in the trained floats.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/train_digits/digits.hpp"

namespace ddprun {
inline namespace app {

// TrainingPlan decides the outcome of a training; it must be the same on every rank.
struct TrainingPlan {
    std::size_t hidden = 128;
    std::size_t batch_size = 32;  // images in a step, over all ranks
    int epochs = 60;
    float learning_rate = 0.05f;
    float momentum = 0.9f;
    std::uint64_t seed = 0;  // of the first parameters and of the order of the images

    std::size_t first_layer() const { return (kPixels + 1) * hidden; }
    std::size_t second_layer() const { return (hidden + 1) * kClasses; }
};

// own_images returns, for each step of an epoch (counted from 0), which images are that rank's. An epoch
// passes over all images in the order of DistributedSampler, in steps of batch_size images over all ranks;
// the last takes what is left.
std::vector<std::vector<std::size_t>> own_images(const TrainingPlan& plan, std::size_t images, int epoch,
                                                 int rank, int world_size);

class Mlp {
  public:
    // Mlp draws its weights evenly from ±sqrt(6 / fan-in), and sets biases to 0: the same bits on every
    // machine. Source: "Delving Deep into Rectifiers", 2015, arXiv:1502.01852.
    explicit Mlp(const TrainingPlan& plan);

    std::vector<float>& parameters() { return parameters_; }

    // predict returns the class with the highest probability, the lowest one among equals.
    std::size_t predict(const Digit& digit);

    // add_to adds what one image contributes to the sums.
    void add_to(std::span<double> sums, const Digit& digit);

    // descend takes a step of stochastic gradient descent. The sums over all ranks are divided by the images
    // of all ranks, so the number of ranks changes nothing but the order of additions.
    void descend(std::span<const double> sums);

  private:
    TrainingPlan plan_;
    std::vector<float> parameters_;
    std::vector<float> velocity_;  // momentum · velocity + mean gradient
    std::vector<float> hidden_;    // of the last image, after ReLU
    std::array<float, kClasses> outputs_{};
};

}  // namespace app
}  // namespace ddprun
