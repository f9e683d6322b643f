// A small multi-layer perceptron: inputs, one hidden layer with ReLU, outputs with softmax and cross-entropy.
//
// Pure arithmetic on the caller's buffers. All parameters are one flat buffer of floats, and their gradients
// one of doubles, in the same order, so that one all-reduce moves them:
//     weights 1 [inputs][hidden], biases 1 [hidden], weights 2 [hidden][outputs], biases 2 [outputs]
// The gradients of one image are floats; in doubles their sums are so nearly exact that the order of
// additions, and with it the number of ranks, hardly ever shows in the trained floats. (Input-major, so that
// the inner loops run over contiguous memory and become vector instructions).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::inline app {

struct MlpShape {
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t outputs = 0;

    // Of the four parts, in the order above.
    std::array<std::size_t, 4> parameter_sizes() const {
        return {inputs * hidden, hidden, hidden * outputs, outputs};
    }
    std::size_t parameter_count() const { return (inputs + 1) * hidden + (hidden + 1) * outputs; }
    bool operator==(const MlpShape&) const = default;
};

// Weights drawn evenly from ±sqrt(6 / fan-in) by SplitMix64, biases 0: the same bits on every machine.
// Source: K. He et al., "Delving Deep into Rectifiers", 2015.
std::vector<float> initial_parameters(const MlpShape& shape, std::uint64_t seed);

// What one image contributed to the sums over a batch.
struct Outcome {
    float loss = 0;        // cross-entropy in nats, -ln of the probability given to the right class
    bool correct = false;  // the right class was the most probable one
};

// Works on one image at a time. Holds only scratch memory: one for each thread.
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

}  // namespace ddprun::inline app
