#include "apps/train_digits/program.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "collectives/training.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kMaxFileBytes = 64 * 1024 * 1024;  // some 400,000 images

// FNV-1a: equal bytes have equal fingerprints, and different ones hardly ever.
std::uint64_t fingerprint_of(std::string_view bytes) {
    std::uint64_t value = 0xcbf29ce484222325;
    for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    return value;
}

// Returns if all ranks have the same bytes; otherwise throws, on all of them, and names one that differs from
// rank 0. `what` ends with its verb, for example "the trained parameters are".
void require_agreement(Communicator& communicator, std::string_view bytes, const std::string& what) {
    const std::uint64_t own = fingerprint_of(bytes);
    std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.world_size()));
    communicator.all_gather(std::span(&own, 1), std::span(all));
    const auto other = std::find_if(all.begin(), all.end(), [&](auto value) { return value != all[0]; });
    if (other != all.end())
        throw std::runtime_error(
            fmt::format("{} not equal on all ranks: rank {} differs from rank 0", what, other - all.begin()));
}

void run(const Options& options, const Train& train, int& rank) {
    const auto data = read_small_file(options.data, kMaxFileBytes);
    if (!data)
        throw InputError(fmt::format("--data: cannot read '{}': {}", options.data, data.error().message()));
    const DigitsSplit digits = parse_digits(*data, "--data: " + options.data);

    Communicator communicator = Communicator::from_env({.backend = BackendChoice::cpu});
    rank = communicator.rank();
    const int ranks = communicator.world_size();
    const TrainingPlan& plan = options.plan;
    require_agreement(communicator, *data, "the images (--data) are");
    require_agreement(communicator,
                      fmt::format("{} {} {} {} {} {}", plan.hidden, plan.batch_size, plan.epochs,
                                  plan.learning_rate, plan.momentum, plan.seed),
                      "the training flags are");
    if (rank == 0 && !options.quiet)
        std::printf("train_digits: %d worker%s, %zu images to train on, %zu to test, %zu parameters\n", ranks,
                    ranks == 1 ? "" : "s", digits.train.size(), digits.test.size(),
                    plan.first_layer() + plan.second_layer());
    auto started = std::chrono::steady_clock::now();
    Mlp network(plan);
    network.parameters() = train(communicator, digits.train, options, started);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    const std::string_view parameters(reinterpret_cast<const char*>(network.parameters().data()),
                                      network.parameters().size() * sizeof(float));
    require_agreement(communicator, parameters, "the trained parameters are");
    if (rank == 0) {
        const auto correct = std::count_if(digits.test.begin(), digits.test.end(), [&](const Digit& digit) {
            return network.predict(digit) == digit.label;
        });
        std::printf("trained in %.2f s\n", took.count());
        std::printf("parameters checked: bit-equal on %d of %d ranks (fingerprint %016" PRIx64 ")\n", ranks,
                    ranks, fingerprint_of(parameters));
        std::printf("test accuracy %.4f (%td of %zu)\n",
                    static_cast<double>(correct) / static_cast<double>(digits.test.size()), correct,
                    digits.test.size());
    }
    run_on_rank(communicator, 0, [&] {
        if (options.save.empty()) return;
        if (const auto trouble = replace_file(options.save, parameters))
            throw std::runtime_error(
                fmt::format("--save: cannot write '{}': {}", options.save, trouble.message()));
        std::printf("saved %s\n", options.save.c_str());
    });
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
        throw std::runtime_error("standard output cannot be written");
}

}  // namespace

Options parse_options(std::vector<std::string> arguments) {
    CLI::App app("Trains a classifier of handwritten digits on all workers of a job at once.");
    Options options;
    TrainingPlan& plan = options.plan;
    app.add_option("--data", options.data, "the digits")->type_name("FILE")->required();
    const auto number = [&app](const char* flag, auto& value, double least, double most, const char* help) {
        const auto trouble = [=](const std::string& text) {
            double parsed = 0;
            std::from_chars(text.data(), text.data() + text.size(), parsed);
            if (parsed >= least && parsed <= most) return std::string();
            return fmt::format("'{}' is not a number from {} to {}", text, least, most);
        };
        app.add_option(flag, value, help)->type_name("N")->check(trouble)->capture_default_str();
    };
    number("--epochs", plan.epochs, 1, 100'000, "passes over the training images");
    number("--batch-size", plan.batch_size, 1, 1'000'000, "images in a step, over all workers");
    number("--lr", plan.learning_rate, 1e-30, 1e30, "learning rate");
    number("--momentum", plan.momentum, 0, 1, "momentum of the gradient descent");
    number("--hidden", plan.hidden, 1, 4096, "units in the hidden layer");
    number("--seed", plan.seed, 0, 1'000'000'000, "of the first parameters and of the order of the images");
    app.add_option("--save", options.save, "write the trained parameters to this file")->type_name("FILE");
    app.add_flag("--quiet", options.quiet, "print no progress, only results");
    std::reverse(arguments.begin(), arguments.end());  // the order App::parse takes
    try {
        app.parse(arguments);
    } catch (const CLI::CallForHelp&) {
        options.help = app.help();
    } catch (const CLI::ParseError& error) {
        throw InputError(error.what());
    }
    return options;
}

void show_epoch(const Options& options, int rank, int epoch, const Totals& totals) {
    const auto [loss, correct, images] = totals;
    if (!std::isfinite(loss))
        throw std::runtime_error(
            fmt::format("the loss is no longer a number in epoch {}: try a smaller --lr than {:g}", epoch + 1,
                        options.plan.learning_rate));
    if (options.quiet || rank != 0) return;
    std::printf("epoch %d/%d  loss %.6f  accuracy %.4f\n", epoch + 1, options.plan.epochs, loss / images,
                correct / images);
    std::fflush(stdout);
}

int run_program(const std::string& program, std::vector<std::string> arguments, const Train& train) {
    int rank = -1;
    try {
        const Options options = parse_options(std::move(arguments));
        std::fputs(options.help.c_str(), stdout);
        if (options.help.empty()) run(options, train, rank);
        return 0;
    } catch (const InputError& error) {
        std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what());
        return 2;
    } catch (const std::exception& error) {
        const std::string where = rank < 0 ? "" : fmt::format("rank {}: ", rank);
        std::fprintf(stderr, "%s: %s%s\n", program.c_str(), where.c_str(), error.what());
        return 1;
    }
}

}  // namespace app
}  // namespace ddprun
