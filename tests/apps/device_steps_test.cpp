// The GPU's arithmetic of a training step, on the host, against train_digits' own.
#include <cmath>
#include <random>
#include <vector>

#include "apps/train_digits/mlp.hpp"
#include "apps/train_digits_gpu/steps.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

template <class Step, class Data>
void compute_all(const Data& data) {
    for (std::size_t index = 0; index < Step::count(data); ++index) Step::compute(data, index);
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

    std::vector<float> hidden(kImages * shape.hidden);
    std::vector<float> hidden_gradients(hidden.size());
    std::vector<float> output_gradients(kImages * shape.outputs);
    std::vector<float> losses(kImages);
    std::vector<float> right(kImages);
    std::vector<float> sums(shape.parameter_count() + 2);
    const DeviceBatch batch{shape.inputs,
                            shape.hidden,
                            shape.outputs,
                            kImages,
                            pixels.data(),
                            labels.data(),
                            parameters.data(),
                            hidden.data(),
                            output_gradients.data(),
                            hidden_gradients.data(),
                            losses.data(),
                            right.data(),
                            sums.data()};
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
    const std::vector<float> sums{4, -8, 3, 2};
    std::vector<float> velocity{1, 0};
    std::vector<float> parameters{10, 20};
    std::vector<float> epoch{1, 1};
    const DeviceUpdate update{2,           0.25F, 0.5F, 0.1F, sums.data(), velocity.data(), parameters.data(),
                              epoch.data()};
    compute_all<UpdateStep>(update);
    CHECK(velocity == std::vector<float>{1.5F, -2});
    CHECK(parameters[0] == Approx(9.85));
    CHECK(parameters[1] == Approx(20.2));
    CHECK(epoch == std::vector<float>{4, 3});
}
