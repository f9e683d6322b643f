// Ranks that train together, in one process: the sums that a communicator would make are made here.
#include <algorithm>
#include <vector>

#include "apps/train_digits/mlp.hpp"
#include "collectives/distributed_sampler.hpp"
#include "rendezvous/system/small_file.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct Run {
    std::vector<double> losses;  // of each epoch
    std::vector<double> right;
    std::vector<float> parameters;
    std::size_t correct = 0;
};

Run train_together(const DigitsSplit& digits, const TrainingPlan& plan, int world_size) {
    std::vector<Mlp> ranks(static_cast<std::size_t>(world_size), Mlp(plan));
    Run run;
    for (int epoch = 0; epoch < plan.epochs; ++epoch) {
        std::vector<std::vector<std::vector<std::size_t>>> images;
        for (int rank = 0; rank < world_size; ++rank)
            images.push_back(own_images(plan, digits.train.size(), epoch, rank, world_size));
        double loss = 0;
        double right = 0;
        for (std::size_t step = 0; step < images.front().size(); ++step) {
            std::vector<double> sums(plan.first_layer() + plan.second_layer() + kTotals);
            for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
                std::vector<double> part(sums.size());
                for (const std::size_t image : images[rank][step])
                    ranks[rank].add_to(part, digits.train[image]);
                for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
            }
            for (Mlp& rank : ranks) rank.descend(sums);
            loss += sums[sums.size() - 3];
            right += sums[sums.size() - 2];
        }
        run.losses.push_back(loss / static_cast<double>(digits.train.size()));
        run.right.push_back(right / static_cast<double>(digits.train.size()));
    }
    run.parameters = ranks.front().parameters();
    for (Mlp& rank : ranks) REQUIRE(rank.parameters() == run.parameters);
    for (const Digit& digit : digits.test) run.correct += ranks.front().predict(digit) == digit.label ? 1 : 0;
    return run;
}

const DigitsSplit& real_digits() {
    static const DigitsSplit digits =
        parse_digits(read_small_file(DDPRUN_DIGITS_CSV, 1 << 20).value(), "digits.csv");
    return digits;
}

TEST_CASE("any number of ranks with the same global batch has the same losses", "[together]") {
    // 1438 images: batches of 48 leave an uneven last one, of 46, for every number of ranks here.
    const TrainingPlan plan{.hidden = 32, .batch_size = 48, .epochs = 6, .seed = 3};
    const Run alone = train_together(real_digits(), plan, 1);
    REQUIRE(alone.losses.front() > 0.8);
    REQUIRE(alone.losses.back() < 0.2);
    for (const int world_size : {2, 3, 4, 7, 64}) {
        CAPTURE(world_size);
        const Run run = train_together(real_digits(), plan, world_size);
        for (std::size_t epoch = 0; epoch < run.losses.size(); ++epoch) {
            CAPTURE(epoch);
            CHECK(run.losses[epoch] == Approx(alone.losses[epoch]).epsilon(1e-6));
            CHECK(run.right[epoch] == Approx(alone.right[epoch]).margin(1e-3));
        }
        CHECK(run.correct == alone.correct);
    }
}

TEST_CASE("each step takes its images of the global batch, each exactly once", "[together]") {
    struct Row {
        std::size_t images;
        std::size_t batch_size;
        int world_size;
        std::vector<std::size_t> steps;  // images in each
    };
    const std::vector<Row> rows = {
        {10, 4, 1, {4, 4, 2}},
        {10, 4, 4, {4, 4, 2}},
        {10, 4, 3, {4, 4, 2}},
        {10, 3, 4, {3, 3, 3, 1}},
        {10, 1, 4, std::vector<std::size_t>(10, 1)},
        {10, 100, 4, {10}},
        {3, 2, 8, {2, 1}},
        {8, 4, 4, {4, 4}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.images, row.batch_size, row.world_size);
        const TrainingPlan plan{.batch_size = row.batch_size, .seed = 9};
        std::vector<std::size_t> counted(row.steps.size(), 0);
        std::vector<std::size_t> seen;
        for (int rank = 0; rank < row.world_size; ++rank) {
            const auto steps = own_images(plan, row.images, 2, rank, row.world_size);
            REQUIRE(steps.size() == row.steps.size());
            for (std::size_t step = 0; step < steps.size(); ++step) {
                counted[step] += steps[step].size();
                seen.insert(seen.end(), steps[step].begin(), steps[step].end());
            }
        }
        CHECK(counted == row.steps);
        std::sort(seen.begin(), seen.end());
        REQUIRE(seen.size() == row.images);
        for (std::size_t image = 0; image < row.images; ++image) CHECK(seen[image] == image);
    }
}

TEST_CASE("the images come in the sampler's order of the epoch", "[together]") {
    const TrainingPlan plan{.batch_size = 1, .seed = 4};
    DistributedSampler sampler(50, 1, 0, {.seed = plan.seed});
    for (const int epoch : {0, 1, 2}) {
        CAPTURE(epoch);
        sampler.set_epoch(static_cast<std::uint64_t>(epoch));
        std::vector<std::size_t> order;
        for (const auto& step : own_images(plan, 50, epoch, 0, 1))
            order.insert(order.end(), step.begin(), step.end());
        CHECK(order == sampler.indices());
    }
}

TEST_CASE("a training is repeatable, and the seed matters", "[together]") {
    const TrainingPlan plan{.hidden = 16, .batch_size = 64, .epochs = 2, .seed = 5};
    const Run one = train_together(real_digits(), plan, 2);
    CHECK(one.parameters == train_together(real_digits(), plan, 2).parameters);
    TrainingPlan other = plan;
    other.seed = 6;
    CHECK(one.parameters != train_together(real_digits(), other, 2).parameters);
}

}  // namespace
}  // namespace ddprun
