#include "apps/train_digits/replica.hpp"

#include <algorithm>
#include <array>

#include "apps/train_digits/augmentation.hpp"

namespace ddprun::inline app {

MlpShape shape_of(const TrainingPlan& plan) {
    return {.inputs = kImagePixels, .hidden = plan.hidden, .outputs = kDigitClasses};
}

EpochImages::EpochImages(const Digits& train, const TrainingPlan& plan, int rank, int world_size)
    : train_(train),
      batch_size_(plan.batch_size),
      seed_(plan.seed),
      rank_(static_cast<std::size_t>(rank)),
      world_size_(static_cast<std::size_t>(world_size)),
      sampler_(train.size(), world_size, rank, {.shuffle = true, .seed = plan.seed}) {}

std::size_t EpochImages::steps_per_epoch() const { return (train_.size() + batch_size_ - 1) / batch_size_; }

std::size_t EpochImages::images_in(std::size_t step) const {
    return std::min(batch_size_, train_.size() - step * batch_size_);
}

void EpochImages::begin_epoch(int epoch) {
    epoch_ = epoch;
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    indices_ = sampler_.indices();
}

void EpochImages::visit(std::size_t step, const Visit& visit) const {
    // Index j of this rank is place rank + j * world_size of the epoch's order. Places from train_.size() on
    // are the sampler's repetitions; the last step ends before them.
    const std::size_t begin = step * batch_size_;
    const std::size_t end = begin + images_in(step);
    std::array<float, kImagePixels> seen{};
    for (std::size_t j = begin > rank_ ? (begin - rank_ + world_size_ - 1) / world_size_ : 0;
         rank_ + j * world_size_ < end; ++j) {
        augment(train_.image(indices_[j]), seed_, epoch_, indices_[j], seen);
        visit(seen, train_.labels[indices_[j]]);
    }
}

Replica::Replica(const Digits& train, const TrainingPlan& plan, int rank, int world_size)
    : images_(train, plan, rank, world_size),
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
    images_.visit(step, [&](std::span<const float, kImagePixels> image, std::uint8_t label) {
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
