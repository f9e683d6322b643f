// train_digits: trains a classifier of handwritten digits, data-parallel over all workers of a job.
//
//   ddprun --nproc-per-node 4 train_digits --data apps/data/digits.csv
//
// Rank 0 prints loss and accuracy of each epoch, then the accuracy on images it was not trained on; every
// rank ends with bit-equal parameters, which is checked.
//
// Exit codes: see README.md.
#include <array>

#include "apps/train_digits/program.hpp"
#include "collectives/grad_buckets.hpp"
#include "collectives/training.hpp"

namespace {

using namespace ddprun;

EpochResult average_over_ranks(Communicator& communicator, const Replica& replica) {
    const EpochResult own = replica.own_result();
    std::array<double, 2> means{own.loss, own.accuracy};
    average(communicator, std::span(means), static_cast<double>(replica.own_images()));
    return {.loss = means[0], .accuracy = means[1]};
}

std::vector<float> train(Communicator& communicator, const Digits& digits, const Options& options,
                         std::chrono::steady_clock::time_point&) {
    Replica replica(digits, options.plan, communicator.rank(), communicator.world_size());
    broadcast_state(communicator, std::array<StatePart, 1>{replica.parameters()});
    GradBucketsOptions buckets;
    buckets.average = false;  // the replica divides by the images of the step
    GradBuckets<double> gradients(communicator, shape_of(options.plan).parameter_sizes(), buckets);
    for (int epoch = 0; epoch < options.plan.epochs; ++epoch) {
        replica.begin_epoch(epoch);
        for (std::size_t step = 0; step < replica.steps_per_epoch(); ++step) {
            replica.compute(step, gradients.gradients());
            for (std::size_t i = gradients.parameters(); i > 0; --i) gradients.mark_ready(i - 1);
            gradients.wait_all();
            replica.apply(step, gradients.gradients());
        }
        show_epoch(options, communicator.rank(), epoch, average_over_ranks(communicator, replica));
    }
    return {replica.parameters().begin(), replica.parameters().end()};
}

}  // namespace

int main(int argc, char** argv) {
    return ddprun::run_program("train_digits", {argv + 1, argv + argc}, train);
}
