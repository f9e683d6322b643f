#include "apps/train_digits/replica.hpp"

#include <algorithm>

#include "apps/train_digits/augmentation.hpp"

namespace ddprun {

MlpShape shape_of(const TrainingPlan& plan) {
    return {.inputs = kImagePixels, .hidden = plan.hidden, .outputs = kDigitClasses};
}

Replica::Replica(const Digits& train, const TrainingPlan& plan, int rank, int world_size)
    : train_(train),
      plan_(plan),
      rank_(static_cast<std::size_t>(rank)),
      world_size_(static_cast<std::size_t>(world_size)),
      sampler_(train.size(), world_size, rank, {.shuffle = true, .seed = plan.seed}),
      mlp_(shape_of(plan)),
      parameters_(initial_parameters(mlp_.shape(), plan.seed)),
      velocity_(parameters_.size(), 0.0f) {}

std::size_t Replica::steps_per_epoch() const {
    return (train_.size() + plan_.batch_size - 1) / plan_.batch_size;
}

std::size_t Replica::images_in(std::size_t step) const {
    return std::min(plan_.batch_size, train_.size() - step * plan_.batch_size);
}

void Replica::begin_epoch(int epoch) {
    epoch_number_ = epoch;
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    indices_ = sampler_.indices();
    epoch_ = {};
}

StepSums Replica::compute(std::size_t step, std::span<double> gradients) {
    std::fill(gradients.begin(), gradients.end(), 0.0);
    StepSums sums;
    // Index j of this rank is place rank + j * world_size of the epoch's order. Places from train_.size() on
    // are the sampler's repetitions; the last step ends before them.
    const std::size_t begin = step * plan_.batch_size;
    const std::size_t end = begin + images_in(step);
    std::size_t j = begin > rank_ ? (begin - rank_ + world_size_ - 1) / world_size_ : 0;
    for (; rank_ + j * world_size_ < end; ++j) {
        const std::size_t index = indices_[j];
        augment(train_.image(index), plan_.seed, epoch_number_, index, seen_);
        const Outcome outcome = mlp_.add_gradients(parameters_, seen_, train_.labels[index], gradients);
        sums.loss += static_cast<double>(outcome.loss);
        sums.correct += outcome.correct ? 1 : 0;
        ++sums.images;
    }
    epoch_.loss += sums.loss;
    epoch_.correct += sums.correct;
    epoch_.images += sums.images;
    return sums;
}

void Replica::apply(std::size_t step, std::span<const double> gradients) {
    const double scale = 1.0 / static_cast<double>(images_in(step));
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

}  // namespace ddprun
