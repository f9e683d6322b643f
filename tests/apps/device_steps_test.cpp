// The GPU's arithmetic of a training step, on the host, against train_digits' own.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "apps/train_digits/mlp.hpp"
#include "apps/train_digits_gpu/steps.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

template <class Step>
void compute_all(const DeviceState& state) {
    for (std::size_t index = 0; index < Step::count(state); ++index) Step::compute(state, index);
}

}  // namespace

TEST_CASE("the device's sums are those of the network on the CPU") {
    const TrainingPlan plan{.hidden = 7, .seed = 3};
    constexpr std::size_t kImages = 9;
    std::mt19937 random(5);
    Mlp network(plan);
    for (float& value : network.parameters())
        value += static_cast<float>(static_cast<int>(random() % 200) - 100) / 1000;
    Digits digits(2 * kImages);
    for (Digit& digit : digits) {
        for (float& pixel : digit.pixels) pixel = static_cast<float>(random() % 17) / 16;
        digit.label = random() % kClasses;
    }
    std::vector<std::size_t> batch(kImages);
    for (std::size_t& image : batch) image = random() % digits.size();

    std::vector<double> expected(plan.first_layer() + plan.second_layer() + kTotals);
    for (const std::size_t image : batch) network.add_to(expected, digits[image]);

    // With room for a larger batch than this one.
    DeviceState state{plan.hidden, kImages + 2};
    std::vector<float> memory(state.size(), 77);
    state.memory = memory.data();
    state.digits = digits.data();
    state.batch = batch.data();
    state.images = kImages;
    std::copy(network.parameters().begin(), network.parameters().end(), state.parameters());
    compute_all<HiddenStep>(state);
    compute_all<OutputStep>(state);
    compute_all<SumStep>(state);

    REQUIRE(state.count() + kTotals == expected.size());
    REQUIRE(state.image_totals() + state.most_images * kTotals == memory.data() + memory.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("sum " << i);
        CHECK(std::abs(static_cast<double>(state.sums()[i]) - expected[i]) < 2e-5);
    }
}

TEST_CASE("a rank without images in a step contributes nothing") {
    DeviceState state{3, 1};
    std::vector<float> memory(state.size(), 77);
    state.memory = memory.data();
    compute_all<HiddenStep>(state);
    compute_all<OutputStep>(state);
    compute_all<SumStep>(state);
    CHECK(std::all_of(state.sums(), state.totals() + kTotals, [](float sum) { return sum == 0; }));
}

TEST_CASE("an update moves the parameters against the mean gradient, with momentum") {
    DeviceState state{1, 1, 0.5F, 0.1F};
    std::vector<float> memory(state.size());
    state.memory = memory.data();
    state.totals()[2] = 4;
    const auto set = [&](std::size_t at, float parameter, float velocity, float sum) {
        state.parameters()[at] = parameter;
        state.velocity()[at] = velocity;
        state.sums()[at] = sum;
    };
    const std::size_t last = state.count() - 1;
    set(0, 10, 1, 4);
    set(last, 20, 0, -8);
    compute_all<UpdateStep>(state);
    CHECK(state.parameters()[0] == Approx(9.85));
    CHECK(state.velocity()[0] == 1.5F);
    CHECK(state.parameters()[last] == Approx(20.2));
    CHECK(state.velocity()[last] == -2);
    CHECK(state.totals()[2] == 4);
}
