#include "apps/train_digits/mlp.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Reproducible, but for nothing else.
float random_float(std::mt19937& random, float limit) {
    return (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f) * limit;
}

Digit random_digit(std::mt19937& random) {
    Digit digit;
    for (float& pixel : digit.pixels) pixel = random() % 3 == 0 ? 0.0f : random_float(random, 1.0f);
    digit.label = random() % kClasses;
    return digit;
}

Mlp random_network(std::mt19937& random, const TrainingPlan& plan) {
    Mlp network(plan);
    // Biases too, so that their gradients are not those of a special point.
    for (float& value : network.parameters()) value += random_float(random, 0.1f);
    return network;
}

std::vector<double> sums_of(const TrainingPlan& plan) {
    return std::vector<double>(plan.first_layer() + plan.second_layer() + kTotals);
}

// The loss by the definition, in doubles and without any of Mlp's code.
double reference_loss(const Digit& digit, std::size_t hidden, const std::vector<double>& parameters) {
    const double* second = &parameters[(kPixels + 1) * hidden];
    std::vector<double> logits(second + hidden * kClasses, second + (hidden + 1) * kClasses);
    for (std::size_t j = 0; j < hidden; ++j) {
        double sum = parameters[kPixels * hidden + j];
        for (std::size_t i = 0; i < kPixels; ++i)
            sum += static_cast<double>(digit.pixels[i]) * parameters[i * hidden + j];
        if (sum < 0) continue;
        for (std::size_t k = 0; k < kClasses; ++k) logits[k] += sum * second[j * kClasses + k];
    }
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    return std::log(sum) - logits[digit.label];
}

TEST_CASE("gradients are the loss's finite differences", "[mlp]") {
    const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u);
    const TrainingPlan plan{.hidden = 9, .seed = seed};
    std::mt19937 random(seed);
    Mlp network = random_network(random, plan);
    const Digit digit = random_digit(random);
    CAPTURE(seed, digit.label);
    std::vector<double> sums = sums_of(plan);
    network.add_to(sums, digit);

    std::vector<double> parameters(network.parameters().begin(), network.parameters().end());
    const std::size_t count = parameters.size();
    CHECK(sums[count] == Approx(reference_loss(digit, plan.hidden, parameters)).epsilon(1e-5));
    CHECK(sums[count + 1] == (network.predict(digit) == digit.label ? 1 : 0));
    CHECK(sums[count + 2] == 1);
    constexpr double kStep = 1e-6;
    for (std::size_t i = 0; i < count; ++i) {
        const double value = parameters[i];
        parameters[i] = value + kStep;
        const double above = reference_loss(digit, plan.hidden, parameters);
        parameters[i] = value - kStep;
        const double below = reference_loss(digit, plan.hidden, parameters);
        parameters[i] = value;
        CAPTURE(i);
        CHECK(sums[i] == Approx((above - below) / (2 * kStep)).epsilon(1e-4).margin(1e-5));
    }
}

TEST_CASE("what images contribute adds up", "[mlp]") {
    const TrainingPlan plan{.hidden = 6};
    std::mt19937 random(11);
    Mlp network = random_network(random, plan);
    const Digit one = random_digit(random);
    const Digit two = random_digit(random);
    std::vector<double> first = sums_of(plan);
    std::vector<double> second = sums_of(plan);
    std::vector<double> both = sums_of(plan);
    network.add_to(first, one);
    network.add_to(second, two);
    network.add_to(both, one);
    network.add_to(both, two);
    for (std::size_t i = 0; i < both.size(); ++i) CHECK(both[i] == first[i] + second[i]);
}

TEST_CASE("a prediction is the largest output and decides what is right", "[mlp]") {
    // No hidden unit is open, so the outputs are the last biases.
    const TrainingPlan plan{.hidden = 1};
    Mlp network(plan);
    std::fill(network.parameters().begin(), network.parameters().end(), 0.0f);
    Digit digit{.pixels = {1.0f, 0.5f}, .label = 9};
    CHECK(network.predict(digit) == 0);
    network.parameters().back() = 1.0f;
    CHECK(network.predict(digit) == 9);
    // Loss and right answers of one image.
    const auto totals_of = [&](std::size_t label) {
        digit.label = label;
        std::vector<double> sums = sums_of(plan);
        network.add_to(sums, digit);
        return std::pair(sums[sums.size() - 3], sums[sums.size() - 2]);
    };
    CHECK(totals_of(9).second == 1);
    CHECK(totals_of(1).second == 0);
    network.parameters().back() = 500.0f;
    CHECK(totals_of(9) == std::pair(0.0, 1.0));
    CHECK(totals_of(0) == std::pair(500.0, 0.0));
}

TEST_CASE("a product is rounded before it is added, on every processor", "[mlp]") {
    // 1 + 2^-12 squared is 1 + 2^-11 in a float; joined with the bias's addition 2^-24 would stay, and be the
    // larger output.
    const float factor = 1.0f + 1.0f / 4096;
    const TrainingPlan plan{.hidden = 1};
    Mlp network(plan);
    std::vector<float>& parameters = network.parameters();
    std::fill(parameters.begin(), parameters.end(), 0.0f);
    parameters[0] = factor;                                // of the first pixel
    parameters[kPixels] = -(1.0f + 1.0f / 2048);           // the hidden bias
    parameters[plan.first_layer()] = 16'777'216.0f;        // of class 0
    parameters[plan.first_layer() + kClasses + 1] = 0.5f;  // the bias of class 1
    CHECK(network.predict({.pixels = {factor}}) == 1);
}

TEST_CASE("first parameters depend on the seed alone and have the stated range", "[mlp]") {
    const std::vector<float> parameters = Mlp({}).parameters();
    REQUIRE(parameters.size() == 64 * 128 + 128 + 128 * 10 + 10);
    CHECK(parameters == Mlp({}).parameters());
    CHECK(parameters != Mlp({.seed = 1}).parameters());
    // The first number of std::mt19937_64 from seed 0 is 2947667278772165694, whatever the library.
    CHECK(parameters[0] == Approx((2947667278772165694.0 / 9223372036854775808.0 - 1) * std::sqrt(6.0 / 64)));

    const auto weights1 = std::span(parameters).first(64 * 128);
    const auto biases1 = std::span(parameters).subspan(64 * 128, 128);
    const auto weights2 = std::span(parameters).subspan(64 * 128 + 128, 128 * 10);
    const auto biases2 = std::span(parameters).last(10);
    const auto range = [](std::span<const float> values) {
        const auto [low, high] = std::minmax_element(values.begin(), values.end());
        return std::pair(*low, *high);
    };
    CHECK(range(weights1).first == Approx(-std::sqrt(6.0 / 64)).epsilon(0.01));
    CHECK(range(weights1).second == Approx(std::sqrt(6.0 / 64)).epsilon(0.01));
    CHECK(range(weights2).first == Approx(-std::sqrt(6.0 / 128)).epsilon(0.01));
    CHECK(range(weights2).second == Approx(std::sqrt(6.0 / 128)).epsilon(0.01));
    CHECK(range(biases1) == std::pair(0.0f, 0.0f));
    CHECK(range(biases2) == std::pair(0.0f, 0.0f));
}

TEST_CASE("a step is one of momentum on the mean over the images of all ranks", "[mlp]") {
    const TrainingPlan plan{.hidden = 1, .learning_rate = 0.5f, .momentum = 0.5f};
    Mlp network(plan);
    const float before = network.parameters()[0];
    std::vector<double> sums(sums_of(plan).size(), 6.0);
    sums.back() = 3;
    network.descend(sums);  // 3 images: mean 2, velocity 2
    CHECK(network.parameters()[0] == before - 1.0f);
    sums.back() = 1;
    network.descend(sums);  // 1 image: mean 6, velocity 0.5 · 2 + 6 = 7
    CHECK(network.parameters()[0] == before - 1.0f - 3.5f);
}

}  // namespace
}  // namespace ddprun
