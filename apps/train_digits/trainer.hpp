// The trainer: drives a Replica with the communicator's all-reduce, and compares the ranks. The thin shell of
// train_digits; every rank calls the same function with the same arguments.
//
// All functions throw CollectiveError when another rank is lost, and std::runtime_error when ranks disagree
// or the training fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/progress.hpp"
#include "apps/train_digits/replica.hpp"
#include "collectives/communicator.hpp"

namespace ddprun::inline app {

// Returns if `value` is equal on all ranks; otherwise throws, on all of them, "<what> not equal on all ranks:
// …" with the ranks that differ. `what` ends with its verb, for example "the trained parameters are".
void require_agreement(Communicator& communicator, std::uint64_t value, const std::string& what);

// Of what must be equal before a training makes sense: the plan, and the images.
std::uint64_t fingerprint_of(const TrainingPlan& plan);
std::uint64_t fingerprint_of(const DigitsSplit& digits);

// The trained parameters, checked to be bit-equal on all ranks; `fingerprint` is theirs.
struct TrainedModel {
    std::vector<float> parameters;
    std::uint64_t fingerprint = 0;
};

// Starts all ranks from rank 0's parameters and makes plan.epochs passes. Rank 0 shows its progress on `out`.
// Throws, on all ranks, when the loss is no longer a finite number.
TrainedModel train(Communicator& communicator, const Digits& digits, const TrainingPlan& plan,
                   std::ostream& out, ProgressStyle style);

// What rank 0 prints at the end: of a training, and of a test.
std::string result_text(std::chrono::duration<double> took, int ranks, std::uint64_t fingerprint);
std::string accuracy_text(std::int64_t correct, std::size_t images);

// How many of the images the parameters name rightly, each rank looking at its share.
std::int64_t count_correct_together(Communicator& communicator, const MlpShape& shape,
                                    std::span<const float> parameters, const Digits& digits);

}  // namespace ddprun::inline app
