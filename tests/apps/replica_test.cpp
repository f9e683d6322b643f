#include "apps/train_digits/replica.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct Run {
    std::vector<EpochResult> epochs;
    std::vector<float> parameters;
    std::size_t correct = 0;
};

// Trains `replicas` ranks in this one process: the sum over ranks that a communicator would make is made
// here.
Run train_together(const DigitsSplit& digits, const TrainingPlan& plan, int replicas) {
    std::vector<Replica> ranks;
    for (int rank = 0; rank < replicas; ++rank) ranks.emplace_back(digits.train, plan, rank, replicas);
    Run run;
    for (int epoch = 0; epoch < plan.epochs; ++epoch) {
        for (Replica& rank : ranks) rank.begin_epoch(epoch);
        for (std::size_t step = 0; step < ranks.front().steps_per_epoch(); ++step) {
            std::vector<double> sums(shape_of(plan).parameter_count());
            std::vector<double> part(sums.size());
            for (Replica& rank : ranks) {
                rank.compute(step, part);
                for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
            }
            for (Replica& rank : ranks) rank.apply(step, sums);
        }
        EpochResult mean;
        for (const Replica& rank : ranks) {
            const double share =
                static_cast<double>(rank.own_images()) / static_cast<double>(digits.train.size());
            mean.loss += share * rank.own_result().loss;
            mean.accuracy += share * rank.own_result().accuracy;
        }
        run.epochs.push_back(mean);
    }
    const std::span<const float> parameters = ranks.front().parameters();
    run.parameters.assign(parameters.begin(), parameters.end());
    for (const Replica& rank : ranks) {
        REQUIRE(std::memcmp(rank.parameters().data(), run.parameters.data(), parameters.size_bytes()) == 0);
    }
    for (int rank = 0; rank < replicas; ++rank) {
        run.correct += count_correct(shape_of(plan), parameters, digits.test, rank, replicas);
    }
    return run;
}

const DigitsSplit& real_digits() {
    static const DigitsSplit digits = split_digits(parse_digits(read_file(DDPRUN_DIGITS_CSV), "digits.csv"));
    return digits;
}

TEST_CASE("any number of replicas with the same global batch has the same losses", "[replica]") {
    // 1438 images: batches of 48 leave an uneven last one, of 46, for every number of replicas here.
    const TrainingPlan plan{.hidden = 32, .batch_size = 48, .epochs = 6, .seed = 3};
    const Run alone = train_together(real_digits(), plan, 1);
    REQUIRE(alone.epochs.front().loss > 1.0);
    REQUIRE(alone.epochs.back().loss < 0.8);
    for (const int replicas : {2, 3, 4, 7, 64}) {
        CAPTURE(replicas);
        const Run run = train_together(real_digits(), plan, replicas);
        for (std::size_t epoch = 0; epoch < run.epochs.size(); ++epoch) {
            CAPTURE(epoch);
            CHECK(run.epochs[epoch].loss == Approx(alone.epochs[epoch].loss).epsilon(1e-6));
            CHECK(run.epochs[epoch].accuracy == Approx(alone.epochs[epoch].accuracy).margin(1e-3));
        }
        CHECK(run.correct == alone.correct);
    }
}

TEST_CASE("each step takes its images of the global batch, each exactly once", "[replica]") {
    struct Row {
        std::size_t images;
        std::size_t batch_size;
        int replicas;
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
        CAPTURE(row.images, row.batch_size, row.replicas);
        Digits digits;
        digits.pixels.assign(row.images * kImagePixels, 0.5f);
        digits.labels.assign(row.images, 0);
        // A network without any weight is right about class 0 each time: right answers count images.
        const TrainingPlan plan{.hidden = 1, .batch_size = row.batch_size, .seed = 9};
        std::vector<double> gradients(shape_of(plan).parameter_count());
        std::vector<std::size_t> counted(row.steps.size(), 0);
        for (int rank = 0; rank < row.replicas; ++rank) {
            Replica replica(digits, plan, rank, row.replicas);
            REQUIRE(replica.steps_per_epoch() == row.steps.size());
            std::fill(replica.parameters().begin(), replica.parameters().end(), 0.0f);
            replica.begin_epoch(2);
            for (std::size_t step = 0; step < row.steps.size(); ++step) {
                const StepSums sums = replica.compute(step, gradients);
                CHECK(sums.correct == sums.images);
                counted[step] += sums.images;
            }
        }
        CHECK(counted == row.steps);
    }
}

TEST_CASE("the images come in the sampler's order of the epoch", "[replica]") {
    constexpr std::size_t kMarked = 17;
    Digits digits;
    digits.pixels.assign(50 * kImagePixels, 0.5f);
    digits.labels.assign(50, 1);
    digits.labels[kMarked] = 0;  // the only image a network without any weight is right about
    const TrainingPlan plan{.hidden = 1, .batch_size = 1, .seed = 4};
    Replica replica(digits, plan, 0, 1);
    std::fill(replica.parameters().begin(), replica.parameters().end(), 0.0f);
    std::vector<double> gradients(shape_of(plan).parameter_count());
    DistributedSampler sampler(digits.size(), 1, 0, {.seed = plan.seed});
    for (const int epoch : {0, 1, 2}) {
        replica.begin_epoch(epoch);
        sampler.set_epoch(static_cast<std::uint64_t>(epoch));
        const std::vector<std::size_t> order = sampler.indices();
        for (std::size_t step = 0; step < order.size(); ++step) {
            CAPTURE(epoch, step);
            CHECK(replica.compute(step, gradients).correct == (order[step] == kMarked ? 1 : 0));
        }
    }
}

TEST_CASE("a training is repeatable, and the seed matters", "[replica]") {
    const TrainingPlan plan{.hidden = 16, .batch_size = 64, .epochs = 2, .seed = 5};
    const Run one = train_together(real_digits(), plan, 2);
    CHECK(one.parameters == train_together(real_digits(), plan, 2).parameters);
    TrainingPlan other = plan;
    other.seed = 6;
    CHECK(one.parameters != train_together(real_digits(), other, 2).parameters);
}

TEST_CASE("an update is the momentum step on the mean over the global batch", "[replica]") {
    Digits digits;
    digits.pixels.assign(4 * kImagePixels, 0.25f);
    digits.labels = {1, 2, 3, 4};
    const TrainingPlan plan{.hidden = 1, .batch_size = 3, .learning_rate = 0.5f, .momentum = 0.5f};
    Replica replica(digits, plan, 0, 1);
    const std::vector<float> before(replica.parameters().begin(), replica.parameters().end());
    replica.begin_epoch(0);
    const std::vector<double> gradients(shape_of(plan).parameter_count(), 6.0);
    replica.apply(0, gradients);  // 3 images: mean 2, velocity 2
    CHECK(replica.parameters()[0] == before[0] - 1.0f);
    replica.apply(1, gradients);  // 1 image: mean 6, velocity 0.5 · 2 + 6 = 7
    CHECK(replica.parameters()[0] == before[0] - 1.0f - 3.5f);
}

TEST_CASE("a replica's result is the mean over its images since the epoch began", "[replica]") {
    Digits digits;
    digits.pixels.assign(4 * kImagePixels, 0.25f);
    digits.labels = {0, 1, 0, 1};
    const TrainingPlan plan{.hidden = 1, .batch_size = 2};
    Replica replica(digits, plan, 0, 1);
    std::fill(replica.parameters().begin(), replica.parameters().end(), 0.0f);
    std::vector<double> gradients(shape_of(plan).parameter_count());
    replica.begin_epoch(0);
    CHECK(replica.own_images() == 0);
    CHECK(replica.own_result().loss == 0.0);
    for (const std::size_t step : {0, 1}) replica.compute(step, gradients);
    CHECK(replica.own_images() == 4);
    CHECK(replica.own_result().accuracy == 0.5);
    CHECK(replica.own_result().loss == Approx(std::log(10.0)));
    replica.begin_epoch(1);
    CHECK(replica.own_images() == 0);
}

}  // namespace
}  // namespace ddprun
