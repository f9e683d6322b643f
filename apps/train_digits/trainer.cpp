#include "apps/train_digits/trainer.hpp"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "apps/train_digits/agreement.hpp"
#include "apps/train_digits/fingerprint.hpp"
#include "collectives/grad_buckets.hpp"
#include "collectives/training.hpp"

namespace ddprun::inline app {

namespace {

template <class T>
void add_value(Fingerprint& fingerprint, const T& value) {
    fingerprint.add_values(std::span(&value, 1));
}

EpochResult average_over_ranks(Communicator& communicator, const Replica& replica) {
    const EpochResult own = replica.own_result();
    std::array<double, 2> means{own.loss, own.accuracy};
    average(communicator, std::span(means), static_cast<double>(replica.own_images()));
    return {.loss = means[0], .accuracy = means[1]};
}

void require_finite(const EpochResult& result, int epoch, const TrainingPlan& plan) {
    if (std::isfinite(result.loss)) return;
    throw std::runtime_error(
        fmt::format("the loss is no longer a number in epoch {}: try a smaller --lr than {:g}", epoch + 1,
                    plan.learning_rate));
}

}  // namespace

void require_agreement(Communicator& communicator, std::uint64_t value, const std::string& what) {
    const auto mine = static_cast<std::int64_t>(value);
    std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.world_size()));
    communicator.all_gather(std::span(&mine, 1), std::span(all));
    const std::vector<int> dissenting = dissenting_ranks(all);
    if (dissenting.empty()) return;
    throw std::runtime_error(fmt::format("{} not equal on all ranks: {} differ{} from the rest", what,
                                         name_ranks(dissenting), dissenting.size() == 1 ? "s" : ""));
}

std::uint64_t fingerprint_of(const TrainingPlan& plan) {
    Fingerprint fingerprint;
    add_value(fingerprint, plan.hidden);
    add_value(fingerprint, plan.batch_size);
    add_value(fingerprint, plan.epochs);
    add_value(fingerprint, plan.learning_rate);
    add_value(fingerprint, plan.momentum);
    add_value(fingerprint, plan.seed);
    return fingerprint.value();
}

std::uint64_t fingerprint_of(const DigitsSplit& digits) {
    Fingerprint fingerprint;
    for (const Digits* part : {&digits.train, &digits.test}) {
        fingerprint.add_values(std::span(part->pixels));
        fingerprint.add_values(std::span(part->labels));
    }
    return fingerprint.value();
}

TrainedModel train(Communicator& communicator, const Digits& digits, const TrainingPlan& plan,
                   std::ostream& out, ProgressStyle style) {
    Replica replica(digits, plan, communicator.rank(), communicator.world_size());
    broadcast_state(communicator, std::array<StatePart, 1>{replica.parameters()});
    GradBucketsOptions options;
    options.average = false;  // the replica divides by the images of the step
    GradBuckets<double> gradients(communicator, shape_of(plan).parameter_sizes(), options);

    const std::size_t steps = replica.steps_per_epoch();
    Progress progress(out, communicator.rank() == 0 ? style : ProgressStyle::none, plan.epochs, steps);
    for (int epoch = 0; epoch < plan.epochs; ++epoch) {
        replica.begin_epoch(epoch);
        for (std::size_t step = 0; step < steps; ++step) {
            replica.compute(step, gradients.gradients());
            for (std::size_t i = gradients.parameters(); i > 0; --i) gradients.mark_ready(i - 1);
            gradients.wait_all();
            replica.apply(step, gradients.gradients());
            progress.step_done(epoch, step);
        }
        const EpochResult result = average_over_ranks(communicator, replica);
        progress.epoch_done(epoch, result);
        require_finite(result, epoch, plan);
    }

    const std::span<const float> parameters = replica.parameters();
    const std::uint64_t fingerprint = fingerprint_of(parameters);
    require_agreement(communicator, fingerprint, "the trained parameters are");
    return {.parameters = {parameters.begin(), parameters.end()}, .fingerprint = fingerprint};
}

std::string result_text(std::chrono::duration<double> took, int ranks, std::uint64_t fingerprint) {
    return fmt::format(
        "trained in {:.2f} s\nparameters checked: bit-equal on {} of {} ranks (fingerprint {})\n",
        took.count(), ranks, ranks, hexadecimal(fingerprint));
}

std::string accuracy_text(std::int64_t correct, std::size_t images) {
    return fmt::format("test accuracy {:.4f} ({} of {})\n",
                       static_cast<double>(correct) / static_cast<double>(images), correct, images);
}

std::int64_t count_correct_together(Communicator& communicator, const MlpShape& shape,
                                    std::span<const float> parameters, const Digits& digits) {
    auto correct = static_cast<std::int64_t>(
        count_correct(shape, parameters, digits, communicator.rank(), communicator.world_size()));
    communicator.all_reduce(std::span(&correct, 1), ReduceOp::sum);
    return correct;
}

}  // namespace ddprun::inline app
