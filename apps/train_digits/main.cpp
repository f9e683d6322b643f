// train_digits: trains a classifier of handwritten digits, data-parallel over all workers of a job.
//
//   ddprun --nproc-per-node 4 train_digits --data apps/data/digits.csv
//
// Rank 0 prints loss and accuracy of each epoch, then the accuracy on images it was not trained on; every
// rank ends with bit-equal parameters, which is checked. Exit codes: see README.md.
#include <algorithm>
#include <array>

#include "apps/train_digits/program.hpp"
#include "collectives/grad_buckets.hpp"
#include "collectives/training.hpp"

namespace {

using namespace ddprun;

std::vector<float> train(Communicator& communicator, const Digits& digits, const Options& options,
                         std::chrono::steady_clock::time_point&) {
    const TrainingPlan& plan = options.plan;
    Mlp network(plan);
    broadcast_state(communicator, std::array<StatePart, 1>{std::span(network.parameters())});
    const std::array sizes{plan.first_layer(), plan.second_layer(), kTotals};
    GradBuckets<double> sums(communicator, sizes, {.average = false});  // the network divides by the images
    for (int epoch = 0; epoch < plan.epochs; ++epoch) {
        Totals totals{};
        for (const auto& images :
             own_images(plan, digits.size(), epoch, communicator.rank(), communicator.world_size())) {
            std::fill(sums.gradients().begin(), sums.gradients().end(), 0.0);
            for (const std::size_t image : images) network.add_to(sums.gradients(), digits[image]);
            for (std::size_t i = sizes.size(); i > 0; --i) sums.mark_ready(i - 1);
            sums.wait_all();
            network.descend(sums.gradients());
            for (std::size_t i = 0; i < kTotals; ++i) totals[i] += sums.gradient(2)[i];
        }
        show_epoch(options, communicator.rank(), epoch, totals);
    }
    return network.parameters();
}

}  // namespace

int main(int argc, char** argv) {
    return ddprun::run_program("train_digits", {argv + 1, argv + argc}, train);
}
