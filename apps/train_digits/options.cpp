#include "apps/train_digits/options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>

#include "apps/train_digits/files.hpp"
#include "apps/train_digits/model_file.hpp"

namespace ddprun::inline app {

namespace {

constexpr int kMaxEpochs = 100000;
constexpr std::size_t kMaxBatchSize = 1000000;
constexpr float kMinLearningRate = 1e-30f;
constexpr float kMaxLearningRate = 1e30f;

// A flag that takes a number from `min` to `max`. from_chars, because CLI11 reads "nan" and "1e99" as it
// likes.
template <class T>
void add_number(CLI::App& app, const std::string& flag, T& value, T min, T max, const std::string& help) {
    const auto set = [&value, flag, min, max](const std::string& text) {
        T number{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (!whole || !(number >= min && number <= max)) {
            throw CLI::ValidationError(flag,
                                       fmt::format("'{}' is not a number from {} to {}", text, min, max));
        }
        value = number;
    };
    app.add_option_function<std::string>(flag, set, help)
        ->type_name("N")
        ->default_str(fmt::format("{}", value));
}

void describe(CLI::App& app, Options& options) {
    app.add_option("--data", options.data, "the digits (form: apps/data/README.md)")
        ->type_name("FILE")
        ->required();
    TrainingPlan& plan = options.plan;
    add_number(app, "--epochs", plan.epochs, 1, kMaxEpochs, "passes over the training images");
    add_number(app, "--batch-size", plan.batch_size, std::size_t{1}, kMaxBatchSize,
               "images in a step, over all workers");
    add_number(app, "--lr", plan.learning_rate, kMinLearningRate, kMaxLearningRate, "learning rate");
    add_number(app, "--momentum", plan.momentum, 0.0f, 1.0f, "momentum of the gradient descent");
    add_number(app, "--hidden", plan.hidden, std::size_t{1}, kMaxHidden, "units in the hidden layer");
    add_number(app, "--seed", plan.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
               "of the first parameters and of the order of the images");
    CLI::Option* save = app.add_option("--save", options.save, "write the trained model to this file");
    save->type_name("FILE");
    app.add_option("--evaluate", options.evaluate, "do not train: print the test accuracy of a saved model")
        ->type_name("MODEL")
        ->excludes(save);
    app.add_flag("--quiet", options.quiet, "print no progress, only results");
    app.set_version_flag("--version", "train_digits " DDPRUN_VERSION);
}

}  // namespace

std::variant<Options, CommandLineEnd> parse_options(std::vector<std::string> arguments) {
    CLI::App app("Trains a classifier of handwritten digits on all workers of a job at once.",
                 "train_digits");
    app.footer(
        "Run it under a launcher, for example\n"
        "  ddprun --nproc-per-node 4 train_digits --data apps/data/digits.csv\n"
        "or alone. Exit codes: 0 done; 1 a worker was lost, results differ or cannot be written;\n"
        "2 wrong command line or file.");
    Options options;
    describe(app, options);
    std::reverse(arguments.begin(), arguments.end());  // the order App::parse takes
    try {
        app.parse(arguments);
    } catch (const CLI::CallForHelp&) {
        return CommandLineEnd{.exit_code = 0, .text = app.help()};
    } catch (const CLI::CallForVersion& version) {
        return CommandLineEnd{.exit_code = 0, .text = std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
        return CommandLineEnd{.exit_code = kBadInput,
                              .text = "train_digits: " + std::string(error.what()) + "\n"};
    }
    return options;
}

int run_with_options(const std::string& program, std::vector<std::string> arguments,
                     const std::function<int(const Options&, int& rank)>& run) {
    const auto parsed = parse_options(std::move(arguments));
    if (const auto* end = std::get_if<CommandLineEnd>(&parsed)) {
        (end->exit_code == 0 ? std::cout : std::cerr) << end->text;
        return end->exit_code;
    }
    int rank = -1;
    try {
        return run(std::get<Options>(parsed), rank);
    } catch (const InputError& error) {
        std::cerr << fmt::format("{}: {}\n", program, error.what());
        return kBadInput;
    } catch (const std::exception& error) {
        std::cerr << fmt::format("{}: {}{}\n", program, rank < 0 ? "" : fmt::format("rank {}: ", rank),
                                 error.what());
        return kWorldFailed;
    }
}

}  // namespace ddprun::inline app
