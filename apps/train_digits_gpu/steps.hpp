// The arithmetic of a training step, one element of a result at a time: what a thread of the GPU does, and,
// in tests, a loop of the host. The network is that of train_digits/replica.hpp. Pure.
//
// Every sum is made by one thread in a fixed order, so the same input gives the same bits.
#pragma once

#include <cmath>
#include <cstddef>

// Marks functions that the GPU's compiler makes for both sides.
#ifdef __CUDACC__
#define DDPRUN_HOST_DEVICE __host__ __device__
#else
#define DDPRUN_HOST_DEVICE
#endif

namespace ddprun::inline app {

// DeviceState is what a rank has on the device: one block of memory, cut into the parts below. Row-major: [images][inputs]
// and so on; parameters as in replica.hpp.
struct DeviceState {
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t outputs = 0;
    std::size_t most_images = 0;  // of a batch
    float momentum = 0;
    float learning_rate = 0;
    float* memory = nullptr;  // size() floats
    // These belong to the batch that is computed:
    std::size_t images = 0;
    float scale = 0;  // 1 / images of all ranks

    DDPRUN_HOST_DEVICE std::size_t count() const { return (inputs + 1) * hidden + (hidden + 1) * outputs; }
    DDPRUN_HOST_DEVICE float* parameters() const { return memory; }
    DDPRUN_HOST_DEVICE float* biases1() const { return memory + inputs * hidden; }
    DDPRUN_HOST_DEVICE float* weights2() const { return biases1() + hidden; }
    DDPRUN_HOST_DEVICE float* biases2() const { return weights2() + hidden * outputs; }
    DDPRUN_HOST_DEVICE float* velocity() const { return memory + count(); }
    // The batch's gradients, its loss, its right answers; then loss and right answers of the epoch.
    DDPRUN_HOST_DEVICE float* sums() const { return velocity() + count(); }
    DDPRUN_HOST_DEVICE float* epoch() const { return sums() + count() + 2; }
    DDPRUN_HOST_DEVICE float* pixels() const { return epoch() + 2; }
    DDPRUN_HOST_DEVICE float* labels() const { return pixels() + most_images * inputs; }
    DDPRUN_HOST_DEVICE float* hidden_values() const { return labels() + most_images; }  // after ReLU
    // The loss's derivatives by the hidden layer before ReLU, and by the outputs before softmax.
    DDPRUN_HOST_DEVICE float* hidden_gradients() const { return hidden_values() + most_images * hidden; }
    DDPRUN_HOST_DEVICE float* output_gradients() const { return hidden_gradients() + most_images * hidden; }
    // Each image's loss, and 1 where the right class was the most probable one.
    DDPRUN_HOST_DEVICE float* losses() const { return output_gradients() + most_images * outputs; }
    DDPRUN_HOST_DEVICE float* hits() const { return losses() + most_images; }
    std::size_t size() const { return 3 * count() + 4 + most_images * (inputs + 2 * hidden + outputs + 3); }
};

// These put the steps of a training into `stream` (a cudaStream_t) of the calling thread's current context, and return null
// or what went wrong. They are in device_steps.cu; in tests, on the host.
const char* enqueue_gradients(const DeviceState& state, void* stream);
const char* enqueue_update(const DeviceState& state, void* stream);

// Each step computes element `index` of count(state).
struct HiddenStep {
    static std::size_t count(const DeviceState& state) { return state.images * state.hidden; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        const float* pixels = state.pixels() + index / state.hidden * state.inputs;
        const std::size_t unit = index % state.hidden;
        float value = state.biases1()[unit];
        for (std::size_t i = 0; i < state.inputs; ++i)
            value += pixels[i] * state.parameters()[i * state.hidden + unit];
        state.hidden_values()[index] = value > 0 ? value : 0;
    }
};

struct OutputStep {
    static std::size_t count(const DeviceState& state) { return state.images; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t image) {
        const float* hidden = state.hidden_values() + image * state.hidden;
        float* out = state.output_gradients() + image * state.outputs;
        std::size_t best = 0;
        for (std::size_t k = 0; k < state.outputs; ++k) {
            float value = state.biases2()[k];
            for (std::size_t j = 0; j < state.hidden; ++j)
                value += hidden[j] * state.weights2()[j * state.outputs + k];
            out[k] = value;
            if (value > out[best]) best = k;
        }
        // Softmax shifted by the largest output, so that exp() cannot overflow.
        const auto label = static_cast<std::size_t>(state.labels()[image]);
        const float largest = out[best];
        const float label_output = out[label] - largest;
        float sum = 0;
        for (std::size_t k = 0; k < state.outputs; ++k) {
            out[k] = expf(out[k] - largest);
            sum += out[k];
        }
        for (std::size_t k = 0; k < state.outputs; ++k) out[k] /= sum;
        out[label] -= 1;
        state.losses()[image] = logf(sum) - label_output;
        state.hits()[image] = best == label ? 1 : 0;
    }
};

struct HiddenGradientStep {
    static std::size_t count(const DeviceState& state) { return state.images * state.hidden; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        const float* out = state.output_gradients() + index / state.hidden * state.outputs;
        const float* weights = state.weights2() + index % state.hidden * state.outputs;
        float value = 0;
        for (std::size_t k = 0; k < state.outputs; ++k) value += weights[k] * out[k];
        state.hidden_gradients()[index] = state.hidden_values()[index] > 0 ? value : 0;
    }
};

struct SumStep {
    static std::size_t count(const DeviceState& state) { return state.count() + 2; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        float sum = 0;
        for (std::size_t image = 0; image < state.images; ++image) sum += part(state, index, image);
        state.sums()[index] = sum;
    }

  private:
    // Returns what one image adds to a sum.
    DDPRUN_HOST_DEVICE static float part(const DeviceState& state, std::size_t at, std::size_t image) {
        const float* hidden_gradients = state.hidden_gradients() + image * state.hidden;
        const float* output_gradients = state.output_gradients() + image * state.outputs;
        if (at < state.inputs * state.hidden) {
            const float pixel = state.pixels()[image * state.inputs + at / state.hidden];
            return pixel * hidden_gradients[at % state.hidden];
        }
        at -= state.inputs * state.hidden;
        if (at < state.hidden) return hidden_gradients[at];
        at -= state.hidden;
        if (at < state.hidden * state.outputs) {
            const float hidden = state.hidden_values()[image * state.hidden + at / state.outputs];
            return hidden * output_gradients[at % state.outputs];
        }
        at -= state.hidden * state.outputs;
        if (at < state.outputs) return output_gradients[at];
        return at == state.outputs ? state.losses()[image] : state.hits()[image];
    }
};

// UpdateStep is stochastic gradient descent with momentum, from sums over all ranks; loss and right answers are added up.
struct UpdateStep {
    static std::size_t count(const DeviceState& state) { return state.count() + 2; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceState& state, std::size_t index) {
        if (index >= state.count()) {
            state.epoch()[index - state.count()] += state.sums()[index];
            return;
        }
        float& velocity = state.velocity()[index];
        velocity = state.momentum * velocity + state.scale * state.sums()[index];
        state.parameters()[index] -= state.learning_rate * velocity;
    }
};

}  // namespace ddprun::inline app
