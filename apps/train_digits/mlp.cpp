#include "apps/train_digits/mlp.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "collectives/distributed_sampler.hpp"

namespace ddprun {
inline namespace app {
namespace {

// target += factor * values
template <class T>
void add_scaled(std::span<T> target, float factor, std::span<const float> values) {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] += static_cast<T>(factor * values[i]);
}

void forward(std::span<const float> layer, std::span<const float> in, std::span<float> out) {
    const auto biases = layer.last(out.size());
    std::copy(biases.begin(), biases.end(), out.begin());
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i] == 0.0f) continue;  // about half of the pixels
        add_scaled(out, in[i], layer.subspan(i * out.size(), out.size()));
    }
}

// Adds a layer's gradients, from the loss's derivatives by what comes out of it.
void backward(std::span<double> layer, std::span<const float> in, std::span<const float> out) {
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i] == 0.0f) continue;
        add_scaled(layer.subspan(i * out.size(), out.size()), in[i], out);
    }
    add_scaled(layer.last(out.size()), 1.0f, out);
}

}  // namespace

std::vector<std::vector<std::size_t>> own_images(const TrainingPlan& plan, std::size_t images, int epoch,
                                                 int rank, int world_size) {
    DistributedSampler sampler(images, world_size, rank, {.shuffle = true, .seed = plan.seed});
    sampler.set_epoch(static_cast<std::uint64_t>(epoch));
    std::vector<std::vector<std::size_t>> steps((images + plan.batch_size - 1) / plan.batch_size);
    // Entry j of a rank is place rank + j · world_size of the order. Those behind the last image are
    // repetitions.
    auto place = static_cast<std::size_t>(rank);
    for (const std::size_t image : sampler.indices()) {
        if (place < images) steps[place / plan.batch_size].push_back(image);
        place += static_cast<std::size_t>(world_size);
    }
    return steps;
}

Mlp::Mlp(const TrainingPlan& plan)
    : plan_(plan),
      parameters_(plan.first_layer() + plan.second_layer()),
      velocity_(parameters_.size()),
      hidden_(plan.hidden) {
    std::mt19937_64 random(plan.seed);  // without a distribution: those of standard libraries differ
    const auto draw = [&](std::size_t first, std::size_t inputs, std::size_t outputs) {
        const float limit = std::sqrt(6.0f / static_cast<float>(inputs));
        for (float& weight : std::span(parameters_).subspan(first, inputs * outputs)) {
            const auto bits = static_cast<float>(random() >> 40);  // the 24 that a float holds exactly
            weight = (bits * 0x1p-23f - 1.0f) * limit;
        }
    };
    draw(0, kPixels, plan.hidden);
    draw(plan.first_layer(), plan.hidden, kClasses);
}

std::size_t Mlp::predict(const Digit& digit) {
    const std::span<const float> all(parameters_);
    forward(all.first(plan_.first_layer()), digit.pixels, hidden_);
    for (float& value : hidden_) value = std::max(value, 0.0f);
    forward(all.last(plan_.second_layer()), hidden_, outputs_);
    return static_cast<std::size_t>(std::max_element(outputs_.begin(), outputs_.end()) - outputs_.begin());
}

void Mlp::add_to(std::span<double> sums, const Digit& digit) {
    const std::size_t predicted = predict(digit);
    // Softmax shifted by the largest output, so that exp() cannot overflow; then the loss's derivatives by
    // the outputs.
    const float largest = outputs_[predicted];
    const float label_output = outputs_[digit.label] - largest;
    float sum = 0;
    for (float& output : outputs_) {
        output = std::exp(output - largest);
        sum += output;
    }
    for (float& output : outputs_) output /= sum;
    outputs_[digit.label] -= 1.0f;

    std::vector<float> by_hidden(plan_.hidden);  // the derivatives by the hidden layer before ReLU
    const float* weights = &parameters_[plan_.first_layer()];
    for (std::size_t j = 0; j < plan_.hidden; ++j, weights += kClasses) {
        if (hidden_[j] == 0.0f) continue;  // ReLU was closed: nothing flows back
        for (std::size_t k = 0; k < kClasses; ++k) by_hidden[j] += weights[k] * outputs_[k];
    }
    backward(sums.first(plan_.first_layer()), digit.pixels, by_hidden);
    backward(sums.subspan(plan_.first_layer(), plan_.second_layer()), hidden_, outputs_);
    const std::span<double> totals = sums.last(kTotals);
    totals[0] += static_cast<double>(std::log(sum) - label_output);
    totals[1] += predicted == digit.label ? 1 : 0;
    totals[2] += 1;
}

void Mlp::descend(std::span<const double> sums) {
    const double scale = 1.0 / sums.back();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        velocity_[i] = plan_.momentum * velocity_[i] + static_cast<float>(scale * sums[i]);
        parameters_[i] -= plan_.learning_rate * velocity_[i];
    }
}

}  // namespace app
}  // namespace ddprun
