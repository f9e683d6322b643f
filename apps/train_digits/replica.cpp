#include "apps/train_digits/replica.hpp"

#include <algorithm>
#include <cmath>

namespace ddprun::inline app {
namespace {

// The four parts of a flat buffer of parameters (float) or gradients (double).
template <class T>
struct Parts {
    std::span<T> weights1;
    std::span<T> biases1;
    std::span<T> weights2;
    std::span<T> biases2;
};

template <class T>
Parts<T> parts_of(std::span<T> buffer, const MlpShape& shape) {
    const std::size_t weights1 = shape.inputs * shape.hidden;
    const std::size_t weights2 = shape.hidden * shape.outputs;
    return {buffer.subspan(0, weights1), buffer.subspan(weights1, shape.hidden),
            buffer.subspan(weights1 + shape.hidden, weights2),
            buffer.subspan(weights1 + shape.hidden + weights2, shape.outputs)};
}

// target += factor * values
template <class T>
void add_scaled(std::span<T> target, float factor, std::span<const float> values) {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] += static_cast<T>(factor * values[i]);
}

std::size_t index_of_largest(std::span<const float> values) {
    return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

std::vector<float> initial_parameters(const MlpShape& shape, std::uint64_t seed) {
    std::vector<float> parameters(shape.parameter_count(), 0.0f);
    const Parts<float> parts = parts_of(std::span(parameters), shape);
    SplitMix64 random(seed);
    const float limit1 = std::sqrt(6.0f / static_cast<float>(shape.inputs));
    const float limit2 = std::sqrt(6.0f / static_cast<float>(shape.hidden));
    for (float& weight : parts.weights1) weight = random.symmetric(limit1);
    for (float& weight : parts.weights2) weight = random.symmetric(limit2);
    return parameters;
}

Mlp::Mlp(const MlpShape& shape)
    : shape_(shape), hidden_(shape.hidden), outputs_(shape.outputs), hidden_gradient_(shape.hidden) {}

std::size_t Mlp::predict(std::span<const float> parameters, std::span<const float> image) {
    forward(parameters, image);
    return index_of_largest(outputs_);
}

Outcome Mlp::add_gradients(std::span<const float> parameters, std::span<const float> image, std::size_t label,
                           std::span<double> gradients) {
    forward(parameters, image);
    const std::size_t predicted = index_of_largest(outputs_);

    // Softmax shifted by the largest output, so that exp() cannot overflow.
    const float largest = outputs_[predicted];
    const float label_output = outputs_[label] - largest;
    float sum = 0;
    for (float& output : outputs_) {
        output = std::exp(output - largest);
        sum += output;
    }
    for (float& output : outputs_) output /= sum;
    outputs_[label] -= 1.0f;

    backward(parameters, image, gradients);
    return {.loss = std::log(sum) - label_output, .correct = predicted == label};
}

void Mlp::forward(std::span<const float> parameters, std::span<const float> image) {
    const Parts<const float> parts = parts_of(parameters, shape_);
    std::copy(parts.biases1.begin(), parts.biases1.end(), hidden_.begin());
    for (std::size_t i = 0; i < shape_.inputs; ++i) {
        if (image[i] == 0.0f) continue;  // about half of the pixels
        add_scaled(std::span(hidden_), image[i], parts.weights1.subspan(i * shape_.hidden, shape_.hidden));
    }
    for (float& value : hidden_) value = std::max(value, 0.0f);

    std::copy(parts.biases2.begin(), parts.biases2.end(), outputs_.begin());
    for (std::size_t j = 0; j < shape_.hidden; ++j) {
        add_scaled(std::span(outputs_), hidden_[j],
                   parts.weights2.subspan(j * shape_.outputs, shape_.outputs));
    }
}

void Mlp::backward(std::span<const float> parameters, std::span<const float> image,
                   std::span<double> gradients) {
    const Parts<const float> parts = parts_of(parameters, shape_);
    const Parts<double> sums = parts_of(gradients, shape_);
    add_scaled(sums.biases2, 1.0f, outputs_);
    for (std::size_t j = 0; j < shape_.hidden; ++j) {
        hidden_gradient_[j] = 0;
        if (hidden_[j] == 0.0f) continue;  // ReLU was closed: nothing flows back
        const std::size_t row = j * shape_.outputs;
        add_scaled(sums.weights2.subspan(row, shape_.outputs), hidden_[j], outputs_);
        for (std::size_t k = 0; k < shape_.outputs; ++k) {
            hidden_gradient_[j] += parts.weights2[row + k] * outputs_[k];
        }
    }
    add_scaled(sums.biases1, 1.0f, hidden_gradient_);
    for (std::size_t i = 0; i < shape_.inputs; ++i) {
        if (image[i] == 0.0f) continue;
        add_scaled(sums.weights1.subspan(i * shape_.hidden, shape_.hidden), image[i], hidden_gradient_);
    }
}

MlpShape shape_of(const TrainingPlan& plan) {
    return {.inputs = kImagePixels, .hidden = plan.hidden, .outputs = kDigitClasses};
}

Replica::Replica(const Digits& train, const TrainingPlan& plan, int rank, int world_size)
    : images_(train, plan.batch_size, plan.seed, rank, world_size),
      plan_(plan),
      mlp_(shape_of(plan)),
      parameters_(initial_parameters(mlp_.shape(), plan.seed)),
      velocity_(parameters_.size(), 0.0f) {}

void Replica::begin_epoch(int epoch) {
    images_.begin_epoch(epoch);
    epoch_ = {};
}

StepSums Replica::compute(std::size_t step, std::span<double> gradients) {
    std::fill(gradients.begin(), gradients.end(), 0.0);
    StepSums sums;
    images_.visit(step, [&](Image image, std::uint8_t label) {
        const Outcome outcome = mlp_.add_gradients(parameters_, image, label, gradients);
        sums.loss += static_cast<double>(outcome.loss);
        sums.correct += outcome.correct ? 1 : 0;
        ++sums.images;
    });
    epoch_.loss += sums.loss;
    epoch_.correct += sums.correct;
    epoch_.images += sums.images;
    return sums;
}

void Replica::apply(std::size_t step, std::span<const double> gradients) {
    const double scale = 1.0 / static_cast<double>(images_.images_in(step));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        velocity_[i] = plan_.momentum * velocity_[i] + static_cast<float>(scale * gradients[i]);
        parameters_[i] -= plan_.learning_rate * velocity_[i];
    }
}

EpochResult Replica::own_result() const {
    if (epoch_.images == 0) return {};
    const auto images = static_cast<double>(epoch_.images);
    return {.loss = epoch_.loss / images, .accuracy = static_cast<double>(epoch_.correct) / images};
}

std::size_t count_correct(const MlpShape& shape, std::span<const float> parameters, const Digits& digits,
                          int rank, int world_size) {
    Mlp mlp(shape);
    std::size_t correct = 0;
    for (auto index = static_cast<std::size_t>(rank); index < digits.size();
         index += static_cast<std::size_t>(world_size)) {
        if (mlp.predict(parameters, digits.image(index)) == digits.labels[index]) ++correct;
    }
    return correct;
}

}  // namespace ddprun::inline app
