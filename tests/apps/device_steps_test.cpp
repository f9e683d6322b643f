// The GPU's arithmetic of a training step, on the host, against train_digits' own.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "apps/train_digits/replica.hpp"
#include "apps/train_digits_gpu/steps.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

template <class Step>
void compute_all(const DeviceState& state) {
    for (std::size_t index = 0; index < Step::count(state); ++index) Step::compute(state, index);
}

}  // namespace

TEST_CASE("the device's gradients, loss and hits are those of the network on the CPU") {
    const MlpShape shape{.inputs = 12, .hidden = 7, .outputs = 5};
    constexpr std::size_t kImages = 9;
    std::mt19937 random(5);
    std::vector<float> parameters = initial_parameters(shape, 3);
    for (float& value : parameters)
        value += static_cast<float>(static_cast<int>(random() % 200) - 100) / 1000;
    std::vector<float> pixels(kImages * shape.inputs);
    for (float& pixel : pixels) pixel = static_cast<float>(random() % 17) / 16;
    std::vector<std::int32_t> labels(kImages);
    for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random() % shape.outputs);

    std::vector<double> expected(shape.parameter_count());
    double loss = 0;
    int hits = 0;
    Mlp mlp(shape);
    for (std::size_t image = 0; image < kImages; ++image) {
        const auto seen = std::span<const float>(pixels).subspan(image * shape.inputs, shape.inputs);
        const Outcome outcome =
            mlp.add_gradients(parameters, seen, static_cast<std::size_t>(labels[image]), std::span(expected));
        loss += static_cast<double>(outcome.loss);
        hits += outcome.correct;
    }

    // With room for a larger batch than this one.
    DeviceState batch{shape.inputs, shape.hidden, shape.outputs, kImages + 2};
    std::vector<float> memory(batch.size(), 77);
    batch.memory = memory.data();
    batch.images = kImages;
    std::copy(parameters.begin(), parameters.end(), batch.parameters());
    std::copy(pixels.begin(), pixels.end(), batch.pixels());
    std::copy(labels.begin(), labels.end(), batch.labels());
    const float* const sums = batch.sums();
    compute_all<HiddenStep>(batch);
    compute_all<OutputStep>(batch);
    compute_all<HiddenGradientStep>(batch);
    compute_all<SumStep>(batch);

    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("parameter " << i);
        CHECK(std::abs(static_cast<double>(sums[i]) - expected[i]) < 1e-5);
    }
    CHECK(std::abs(static_cast<double>(sums[expected.size()]) - loss) < 1e-4);
    CHECK(static_cast<int>(sums[expected.size() + 1]) == hits);
}

TEST_CASE("an update moves the parameters against the mean gradient, with momentum") {
    // Two parameters: the biases of outputs without a hidden layer.
    DeviceState update{.outputs = 2, .momentum = 0.5F, .learning_rate = 0.1F, .scale = 0.25F};
    //                       parameters, velocity, sums, epoch
    std::vector<float> memory{10, 20, 1, 0, 4, -8, 3, 2, 1, 1};
    REQUIRE(update.size() == memory.size());
    update.memory = memory.data();
    compute_all<UpdateStep>(update);
    CHECK(memory[0] == Approx(9.85));
    CHECK(memory[1] == Approx(20.2));
    CHECK(std::vector<float>(memory.begin() + 2, memory.end()) ==
          std::vector<float>{1.5F, -2, 4, -8, 3, 2, 4, 3});
}
