// The arithmetic of a training step, one element of a result at a time: what a thread of the GPU does, and,
// in tests, a loop of the host. The network is that of train_digits/mlp.hpp. Pure.
//
// Every sum is made by one thread in a fixed order, so the same input gives the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

// Functions that the GPU's compiler makes for both sides.
#ifdef __CUDACC__
#define DDPRUN_HOST_DEVICE __host__ __device__
#else
#define DDPRUN_HOST_DEVICE
#endif

namespace ddprun::inline app {

// A batch on the device. Row-major: [images][inputs] and so on; parameters as in mlp.hpp.
struct DeviceBatch {
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t outputs = 0;
    std::size_t images = 0;
    const float* pixels = nullptr;
    const std::int32_t* labels = nullptr;
    const float* parameters = nullptr;
    float* hidden_values = nullptr;     // after ReLU
    float* output_gradients = nullptr;  // the loss's derivatives by the outputs before softmax
    float* hidden_gradients = nullptr;  // and by the hidden layer before ReLU
    float* losses = nullptr;            // of each image
    float* hits = nullptr;              // 1 where the right class was the most probable one
    float* sums = nullptr;              // over the batch: the gradients, the loss, the hits

    DDPRUN_HOST_DEVICE std::size_t parameter_count() const {
        return (inputs + 1) * hidden + (hidden + 1) * outputs;
    }
    DDPRUN_HOST_DEVICE const float* biases1() const { return parameters + inputs * hidden; }
    DDPRUN_HOST_DEVICE const float* weights2() const { return biases1() + hidden; }
    DDPRUN_HOST_DEVICE const float* biases2() const { return weights2() + hidden * outputs; }
};

// Each step computes element `index` of count(batch).
struct HiddenStep {
    static std::size_t count(const DeviceBatch& batch) { return batch.images * batch.hidden; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceBatch& batch, std::size_t index) {
        const float* pixels = batch.pixels + index / batch.hidden * batch.inputs;
        const std::size_t unit = index % batch.hidden;
        float value = batch.biases1()[unit];
        for (std::size_t i = 0; i < batch.inputs; ++i)
            value += pixels[i] * batch.parameters[i * batch.hidden + unit];
        batch.hidden_values[index] = value > 0 ? value : 0;
    }
};

struct OutputStep {
    static std::size_t count(const DeviceBatch& batch) { return batch.images; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceBatch& batch, std::size_t image) {
        const float* hidden = batch.hidden_values + image * batch.hidden;
        float* out = batch.output_gradients + image * batch.outputs;
        std::size_t best = 0;
        for (std::size_t k = 0; k < batch.outputs; ++k) {
            float value = batch.biases2()[k];
            for (std::size_t j = 0; j < batch.hidden; ++j)
                value += hidden[j] * batch.weights2()[j * batch.outputs + k];
            out[k] = value;
            if (value > out[best]) best = k;
        }
        // Softmax shifted by the largest output, so that exp() cannot overflow.
        const auto label = static_cast<std::size_t>(batch.labels[image]);
        const float largest = out[best];
        const float label_output = out[label] - largest;
        float sum = 0;
        for (std::size_t k = 0; k < batch.outputs; ++k) {
            out[k] = expf(out[k] - largest);
            sum += out[k];
        }
        for (std::size_t k = 0; k < batch.outputs; ++k) out[k] /= sum;
        out[label] -= 1;
        batch.losses[image] = logf(sum) - label_output;
        batch.hits[image] = best == label ? 1 : 0;
    }
};

struct HiddenGradientStep {
    static std::size_t count(const DeviceBatch& batch) { return batch.images * batch.hidden; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceBatch& batch, std::size_t index) {
        const float* out = batch.output_gradients + index / batch.hidden * batch.outputs;
        const float* weights = batch.weights2() + index % batch.hidden * batch.outputs;
        float value = 0;
        for (std::size_t k = 0; k < batch.outputs; ++k) value += weights[k] * out[k];
        batch.hidden_gradients[index] = batch.hidden_values[index] > 0 ? value : 0;
    }
};

struct SumStep {
    static std::size_t count(const DeviceBatch& batch) { return batch.parameter_count() + 2; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceBatch& batch, std::size_t index) {
        float sum = 0;
        for (std::size_t image = 0; image < batch.images; ++image) sum += part(batch, index, image);
        batch.sums[index] = sum;
    }

  private:
    // What one image adds to a sum.
    DDPRUN_HOST_DEVICE static float part(const DeviceBatch& batch, std::size_t at, std::size_t image) {
        const float* hidden_gradients = batch.hidden_gradients + image * batch.hidden;
        const float* output_gradients = batch.output_gradients + image * batch.outputs;
        if (at < batch.inputs * batch.hidden) {
            const float pixel = batch.pixels[image * batch.inputs + at / batch.hidden];
            return pixel * hidden_gradients[at % batch.hidden];
        }
        at -= batch.inputs * batch.hidden;
        if (at < batch.hidden) return hidden_gradients[at];
        at -= batch.hidden;
        if (at < batch.hidden * batch.outputs) {
            const float hidden = batch.hidden_values[image * batch.hidden + at / batch.outputs];
            return hidden * output_gradients[at % batch.outputs];
        }
        at -= batch.hidden * batch.outputs;
        if (at < batch.outputs) return output_gradients[at];
        return at == batch.outputs ? batch.losses[image] : batch.hits[image];
    }
};

// Stochastic gradient descent with momentum, from sums over all ranks; the loss and the hits are added up.
struct DeviceUpdate {
    std::size_t parameter_count = 0;
    float scale = 0;  // 1 / images of all ranks
    float momentum = 0;
    float learning_rate = 0;
    const float* sums = nullptr;
    float* velocity = nullptr;
    float* parameters = nullptr;
    float* epoch = nullptr;  // loss, hits
};

struct UpdateStep {
    static std::size_t count(const DeviceUpdate& update) { return update.parameter_count + 2; }
    DDPRUN_HOST_DEVICE static void compute(const DeviceUpdate& update, std::size_t index) {
        if (index >= update.parameter_count) {
            update.epoch[index - update.parameter_count] += update.sums[index];
            return;
        }
        float& velocity = update.velocity[index];
        velocity = update.momentum * velocity + update.scale * update.sums[index];
        update.parameters[index] -= update.learning_rate * velocity;
    }
};

}  // namespace ddprun::inline app
