#include "apps/train_digits/replica.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct Case {
    MlpShape shape;
    std::vector<float> parameters;
    std::vector<float> image;
    std::size_t label = 0;
};

Case random_case(std::uint64_t seed, const MlpShape& shape) {
    SplitMix64 random(seed);
    Case made{.shape = shape, .parameters = initial_parameters(shape, seed), .image = {}};
    // Biases too, so that their gradients are not those of a special point.
    for (float& value : made.parameters) value += random.symmetric(0.1f);
    for (std::size_t i = 0; i < shape.inputs; ++i) {
        made.image.push_back(random.next() % 3 == 0 ? 0.0f : random.symmetric(1.0f));
    }
    made.label = random.next() % shape.outputs;
    return made;
}

// The loss by the definition, in doubles and without any of Mlp's code.
double reference_loss(const Case& made, const std::vector<double>& parameters) {
    const auto [inputs, hidden, outputs] = made.shape;
    std::vector<double> logits(outputs);
    for (std::size_t k = 0; k < outputs; ++k)
        logits[k] = parameters[(inputs + 1) * hidden + hidden * outputs + k];
    for (std::size_t j = 0; j < hidden; ++j) {
        double sum = parameters[inputs * hidden + j];
        for (std::size_t i = 0; i < inputs; ++i) {
            sum += static_cast<double>(made.image[i]) * parameters[i * hidden + j];
        }
        if (sum < 0) continue;
        for (std::size_t k = 0; k < outputs; ++k) {
            logits[k] += sum * parameters[(inputs + 1) * hidden + j * outputs + k];
        }
    }
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    return std::log(sum) - logits[made.label];
}

TEST_CASE("gradients are the loss's finite differences", "[mlp]") {
    const std::uint64_t seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u);
    const Case made = random_case(seed, {.inputs = 7, .hidden = 9, .outputs = 4});
    CAPTURE(seed, made.label);
    Mlp mlp(made.shape);
    std::vector<double> gradients(made.parameters.size(), 0.0);
    const Outcome outcome = mlp.add_gradients(made.parameters, made.image, made.label, gradients);

    std::vector<double> parameters(made.parameters.begin(), made.parameters.end());
    CHECK(static_cast<double>(outcome.loss) == Approx(reference_loss(made, parameters)).epsilon(1e-5));
    constexpr double kStep = 1e-6;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const double value = parameters[i];
        parameters[i] = value + kStep;
        const double above = reference_loss(made, parameters);
        parameters[i] = value - kStep;
        const double below = reference_loss(made, parameters);
        parameters[i] = value;
        CAPTURE(i);
        CHECK(gradients[i] == Approx((above - below) / (2 * kStep)).epsilon(1e-4).margin(1e-6));
    }
}

TEST_CASE("gradients add up over calls", "[mlp]") {
    const MlpShape shape{.inputs = 5, .hidden = 6, .outputs = 3};
    const Case one = random_case(11, shape);
    const Case two = random_case(12, shape);
    Mlp mlp(shape);
    std::vector<double> first(shape.parameter_count(), 0.0);
    std::vector<double> second(shape.parameter_count(), 0.0);
    std::vector<double> both(shape.parameter_count(), 0.0);
    mlp.add_gradients(one.parameters, one.image, one.label, first);
    mlp.add_gradients(one.parameters, two.image, two.label, second);
    mlp.add_gradients(one.parameters, one.image, one.label, both);
    mlp.add_gradients(one.parameters, two.image, two.label, both);
    for (std::size_t i = 0; i < both.size(); ++i) CHECK(both[i] == first[i] + second[i]);
}

TEST_CASE("a prediction is the largest output and decides what is correct", "[mlp]") {
    // No hidden unit is open, so the outputs are the last biases.
    const MlpShape shape{.inputs = 2, .hidden = 1, .outputs = 3};
    std::vector<float> parameters(shape.parameter_count(), 0.0f);
    const std::vector<float> image = {1.0f, 0.5f};
    Mlp mlp(shape);
    CHECK(mlp.predict(parameters, image) == 0);

    parameters[parameters.size() - 1] = 1.0f;
    CHECK(mlp.predict(parameters, image) == 2);
    std::vector<double> gradients(parameters.size(), 0.0);
    CHECK(mlp.add_gradients(parameters, image, 2, gradients).correct);
    CHECK_FALSE(mlp.add_gradients(parameters, image, 1, gradients).correct);

    parameters[parameters.size() - 1] = 500.0f;
    const Outcome certain = mlp.add_gradients(parameters, image, 2, gradients);
    CHECK(certain.loss == 0.0f);
    CHECK(mlp.add_gradients(parameters, image, 0, gradients).loss == 500.0f);
}

TEST_CASE("a product is rounded before it is added, on every processor", "[mlp]") {
    // 1 + 2^-12 squared is 1 + 2^-11 in a float; joined with the bias's addition 2^-24 would stay, and be the larger output.
    const float factor = 1.0f + 1.0f / 4096;
    const std::vector<float> parameters = {factor, -(1.0f + 1.0f / 2048), 16'777'216.0f, 0.0f, 0.0f, 0.5f};
    CHECK(Mlp({.inputs = 1, .hidden = 1, .outputs = 2}).predict(parameters, std::vector<float>{factor}) == 1);
}

TEST_CASE("first parameters depend on the seed alone and have the stated range", "[mlp]") {
    const MlpShape shape{.inputs = 64, .hidden = 128, .outputs = 10};
    REQUIRE(shape.parameter_count() == 64 * 128 + 128 + 128 * 10 + 10);
    const std::vector<float> parameters = initial_parameters(shape, 0);
    REQUIRE(parameters.size() == shape.parameter_count());
    CHECK(parameters == initial_parameters(shape, 0));
    CHECK(parameters != initial_parameters(shape, 1));

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

TEST_CASE("SplitMix64 gives the published numbers", "[mlp]") {
    // From seed 1234567, as in the test vectors of the Rosetta Code task "Pseudo-random numbers/Splitmix64".
    SplitMix64 random(1234567);
    CHECK(random.next() == 6457827717110365317u);
    CHECK(random.next() == 3203168211198807973u);
    CHECK(random.next() == 9817491932198370423u);
    CHECK(random.next() == 4593380528125082431u);
    CHECK(random.next() == 16408922859458223821u);
}

}  // namespace
}  // namespace ddprun
