// HiddenStep and the structs here have the arithmetic of a training step, one element of a result at a time:
// what a thread of the GPU does, and, in tests, a loop of the host. The network is that of
// train_digits/mlp.hpp. Pure.
//
// Every sum is made by one thread in a fixed order, so the same input gives the same bits.
#pragma once

#include <cmath>
#include <cstddef>

#include "apps/train_digits/digits.hpp"

// DDPRUN_HOST_DEVICE marks functions that the GPU's compiler makes for both sides.
#ifdef __CUDACC__
#define DDPRUN_HOST_DEVICE __host__ __device__
#else
#define DDPRUN_HOST_DEVICE
#endif

namespace ddprun {
inline namespace app {

// DeviceState is what a rank has on the device: all images, which of them are the batch, and one block of
// memory that is cut into the parts below. Parameters and sums are as in train_digits/mlp.hpp, but floats;
// the parts behind them have a row for each image of the batch.
struct DeviceState {
    std::size_t hidden = 0;
    std::size_t most_images = 0;  // of a batch
    float momentum = 0;
    float learning_rate = 0;
    const Digit* digits = nullptr;
    const std::size_t* batch = nullptr;
    float* memory = nullptr;  // size() floats
    std::size_t images = 0;   // of the batch that is computed

    DDPRUN_HOST_DEVICE std::size_t first_layer() const { return (kPixels + 1) * hidden; }
    DDPRUN_HOST_DEVICE std::size_t count() const { return first_layer() + (hidden + 1) * kClasses; }
    DDPRUN_HOST_DEVICE float* parameters() const { return memory; }
    DDPRUN_HOST_DEVICE float* velocity() const { return memory + count(); }
    DDPRUN_HOST_DEVICE float* sums() const { return velocity() + count(); }
    DDPRUN_HOST_DEVICE float* totals() const { return sums() + count(); }           // the last of the sums
    DDPRUN_HOST_DEVICE float* hidden_values() const { return totals() + kTotals; }  // after ReLU
    // Returns the loss's derivatives by the hidden layer before ReLU; output_gradients() by the outputs
    // before softmax.
    DDPRUN_HOST_DEVICE float* hidden_gradients() const { return hidden_values() + most_images * hidden; }
    DDPRUN_HOST_DEVICE float* output_gradients() const { return hidden_gradients() + most_images * hidden; }
    DDPRUN_HOST_DEVICE float* image_totals() const { return output_gradients() + most_images * kClasses; }
    std::size_t size() const {
        return 3 * count() + kTotals + most_images * (2 * hidden + kClasses + kTotals);
    }
};

// Launches a step of a training in the default stream of the calling thread's current context, as
// launch_update() does. Returns CUDA's result (0: success). The launchers are in device_steps.cu; in tests,
// on the host.
int launch_gradients(const DeviceState& state);
int launch_update(const DeviceState& state);

// Computes what a unit of a layer with `units` of them makes of `inputs` values.
DDPRUN_HOST_DEVICE inline float unit_value(const float* layer, std::size_t units, std::size_t unit,
                                           const float* values, std::size_t inputs) {
    float sum = layer[inputs * units + unit];
    for (std::size_t i = 0; i < inputs; ++i) sum += values[i] * layer[i * units + unit];
    return sum;
}

// HiddenStep and the steps below compute element `index` of count(state).
struct HiddenStep {
    static std::size_t count(const DeviceState& state) { return state.images * state.hidden; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        const float* pixels = state.digits[state.batch[index / state.hidden]].pixels;
        const float value =
            unit_value(state.parameters(), state.hidden, index % state.hidden, pixels, kPixels);
        state.hidden_values()[index] = fmaxf(value, 0);
    }
};

struct OutputStep {
    static std::size_t count(const DeviceState& state) { return state.images; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t image) {
        const float* layer = state.parameters() + state.first_layer();
        const float* hidden = state.hidden_values() + image * state.hidden;
        float* out = state.output_gradients() + image * kClasses;
        std::size_t best = 0;
        for (std::size_t k = 0; k < kClasses; ++k) {
            out[k] = unit_value(layer, kClasses, k, hidden, state.hidden);
            if (out[k] > out[best]) best = k;
        }
        // Softmax shifted by the largest output, so that exp() cannot overflow.
        const std::size_t label = state.digits[state.batch[image]].label;
        const float largest = out[best];
        float sum = 0;
        for (std::size_t k = 0; k < kClasses; ++k) sum += expf(out[k] - largest);
        float* totals = state.image_totals() + image * kTotals;
        totals[0] = logf(sum) + largest - out[label];
        totals[1] = best == label ? 1 : 0;
        totals[2] = 1;
        for (std::size_t k = 0; k < kClasses; ++k)
            out[k] = expf(out[k] - largest) / sum - (k == label ? 1.0F : 0.0F);
        for (std::size_t j = 0; j < state.hidden; ++j) {
            float value = 0;
            for (std::size_t k = 0; k < kClasses; ++k) value += layer[j * kClasses + k] * out[k];
            state.hidden_gradients()[image * state.hidden + j] = hidden[j] > 0 ? value : 0;
        }
    }
};

struct SumStep {
    static std::size_t count(const DeviceState& state) { return state.count() + kTotals; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        float sum = 0;
        for (std::size_t image = 0; image < state.images; ++image) sum += part(state, index, image);
        state.sums()[index] = sum;
    }

  private:
    // Returns what one image adds to a sum.
    DDPRUN_HOST_DEVICE static float part(const DeviceState& state, std::size_t at, std::size_t image) {
        if (at >= state.count()) return state.image_totals()[image * kTotals + at - state.count()];
        const bool first = at < state.first_layer();
        if (!first) at -= state.first_layer();
        const std::size_t inputs = first ? kPixels : state.hidden;
        const std::size_t units = first ? state.hidden : kClasses;
        const float* in =
            first ? state.digits[state.batch[image]].pixels : state.hidden_values() + image * inputs;
        const float* out = (first ? state.hidden_gradients() : state.output_gradients()) + image * units;
        const std::size_t row = at / units;  // the last one is that of the biases
        return (row < inputs ? in[row] : 1) * out[at % units];
    }
};

// UpdateStep is stochastic gradient descent with momentum, from sums over all ranks.
struct UpdateStep {
    static std::size_t count(const DeviceState& state) { return state.count(); }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        float& velocity = state.velocity()[index];
        velocity = state.momentum * velocity + state.sums()[index] / state.totals()[2];
        state.parameters()[index] -= state.learning_rate * velocity;
    }
};

}  // namespace app
}  // namespace ddprun
