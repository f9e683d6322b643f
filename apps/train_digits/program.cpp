#include "apps/train_digits/program.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>

#include "collectives/training.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {
namespace {

constexpr std::size_t kMaxHidden = 4096;
constexpr const char* kModelLine = "ddprun-digits-model 2 {} {:016x}\n";
constexpr int kMaxEpochs = 100000;
constexpr std::size_t kMaxBatchSize = 1000000;
constexpr float kMinLearningRate = 1e-30f;
constexpr float kMaxLearningRate = 1e30f;

// Adds a flag that takes a number from `min` to `max`. It is read by from_chars, because CLI11 reads "nan" and "1e99" as
// it likes.
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

// Runs `read`; if the input is wrong, the message names the flag it came from.
template <class Read>
auto from_flag(const std::string& flag, Read read) {
    try {
        return read();
    } catch (const InputError& error) {
        throw InputError(flag + ": " + error.what());
    }
}

// Returns if `value` is equal on all ranks; otherwise throws, on all of them, and names those that differ from rank 0.
// `what` ends with its verb, for example "the trained parameters are".
void require_agreement(Communicator& communicator, std::uint64_t value, const std::string& what) {
    const auto mine = static_cast<std::int64_t>(value);
    std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.world_size()));
    communicator.all_gather(std::span(&mine, 1), std::span(all));
    std::string differing;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) differing += fmt::format("{}rank {}", differing.empty() ? "" : ", ", rank);
    }
    if (differing.empty()) return;
    throw std::runtime_error(
        fmt::format("{} not equal on all ranks: {} differs from rank 0", what, differing));
}

// Tests the model together, each rank on its share of the images. Rank 0 prints how many it names rightly.
void print_accuracy(Communicator& communicator, const Model& model, const Digits& digits) {
    auto correct = static_cast<std::int64_t>(
        count_correct(model.shape, model.parameters, digits, communicator.rank(), communicator.world_size()));
    communicator.all_reduce(std::span(&correct, 1), ReduceOp::sum);
    if (communicator.rank() != 0) return;
    std::cout << fmt::format("test accuracy {:.4f} ({} of {})\n",
                             static_cast<double>(correct) / static_cast<double>(digits.size()), correct,
                             digits.size());
}

int run_training(Communicator& communicator, const Options& options, const DigitsSplit& digits,
                 const Train& train) {
    const bool first = communicator.rank() == 0;
    const int ranks = communicator.world_size();
    try {
        // Only rank 0 saves, so only it looks at --save, and all ranks end alike.
        run_on_rank(communicator, 0, [&] {
            const auto trouble =
                options.save.empty() ? boost::system::error_code() : try_replace(options.save);
            if (trouble)
                throw InputError(
                    fmt::format("--save: '{}' cannot be written: {}", options.save, trouble.message()));
        });
    } catch (const ActionFailed&) {
        return kBadInput;  // rank 0 says why
    }
    const TrainingPlan& plan = options.plan;
    const std::string flags = fmt::format("{} {} {} {} {} {}", plan.hidden, plan.batch_size, plan.epochs,
                                          plan.learning_rate, plan.momentum, plan.seed);
    require_agreement(communicator, fingerprint_of(std::as_bytes(std::span(flags))),
                      "the training flags are");
    const MlpShape shape = shape_of(plan);
    if (first && !options.quiet)
        std::cout << fmt::format(
                         "train_digits: {} worker{}, {} images to train on, {} to test, {} parameters\n",
                         ranks, ranks == 1 ? "" : "s", digits.train.size(), digits.test.size(),
                         shape.parameter_count())
                  << std::flush;
    auto started = std::chrono::steady_clock::now();
    const Model model{shape, train(communicator, digits.train, options, started)};
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    require_agreement(communicator, model.fingerprint(), "the trained parameters are");
    if (first)
        std::cout << fmt::format(
            "trained in {:.2f} s\nparameters checked: bit-equal on {} of {} ranks (fingerprint {:016x})\n",
            took.count(), ranks, ranks, model.fingerprint());
    print_accuracy(communicator, model, digits.test);
    if (!first || options.save.empty()) return 0;
    if (const auto trouble = replace_file(options.save, encode_model(model)))
        throw Error(trouble, fmt::format("cannot write '{}': {}", options.save, trouble.message()));
    std::cout << "saved " << options.save << '\n';
    return 0;
}

int run(const Options& options, const Train& train, int& rank) {
    const std::string data = from_flag("--data", [&] { return read_file(options.data); });
    const DigitsSplit digits =
        from_flag("--data", [&] { return split_digits(parse_digits(data, options.data)); });
    Model model;
    const bool evaluate = !options.evaluate.empty();
    if (evaluate)
        model = from_flag("--evaluate",
                          [&] { return decode_model(read_file(options.evaluate), options.evaluate); });

    CommunicatorOptions of_cpu;
    of_cpu.backend = BackendChoice::cpu;
    Communicator communicator = Communicator::from_env(of_cpu);
    rank = communicator.rank();
    require_agreement(communicator, fingerprint_of(std::as_bytes(std::span(data))),
                      "the images (--data) are");
    int code = 0;
    if (evaluate) {
        require_agreement(communicator, model.fingerprint(), "the model (--evaluate) is");
        print_accuracy(communicator, model, digits.test);
    } else {
        code = run_training(communicator, options, digits, train);
    }
    if (!std::cout.flush()) throw std::runtime_error("standard output cannot be written");
    return code;
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

std::uint64_t fingerprint_of(std::span<const std::byte> bytes) {
    std::uint64_t value = 0xcbf29ce484222325;
    for (const std::byte byte : bytes) value = (value ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
    return value;
}

std::string encode_model(const Model& model) {
    std::string bytes = fmt::format(kModelLine, model.shape.hidden, model.fingerprint());
    bytes.append(reinterpret_cast<const char*>(model.parameters.data()),
                 model.parameters.size() * sizeof(float));
    return bytes;
}

Model decode_model(const std::string& bytes, const std::string& name) {
    Model model{.shape = shape_of({})};
    const bool is_model =
        std::sscanf(bytes.c_str(), "ddprun-digits-model 2 %4zu ", &model.shape.hidden) == 1 &&
        model.shape.hidden >= 1 && model.shape.hidden <= kMaxHidden;
    model.parameters.resize(is_model ? model.shape.parameter_count() : 0);
    const std::size_t size = model.parameters.size() * sizeof(float);
    if (is_model && bytes.size() > size)
        std::memcpy(model.parameters.data(), &bytes[bytes.size() - size], size);
    if (!is_model || encode_model(model) != bytes)
        throw InputError(name + ": not a model of train_digits, or damaged");
    return model;
}

void show_epoch(const Options& options, int rank, int epoch, const EpochResult& result) {
    if (!std::isfinite(result.loss))
        throw std::runtime_error(
            fmt::format("the loss is no longer a number in epoch {}: try a smaller --lr than {:g}", epoch + 1,
                        options.plan.learning_rate));
    if (options.quiet || rank != 0) return;
    const int epochs = options.plan.epochs;
    std::cout << fmt::format("epoch {:>{}}/{}  loss {:.6f}  accuracy {:.4f}\n", epoch + 1,
                             std::to_string(epochs).size(), epochs, result.loss, result.accuracy)
              << std::flush;
}

int run_program(const std::string& program, std::vector<std::string> arguments, const Train& train) {
    const auto parsed = parse_options(std::move(arguments));
    if (const auto* end = std::get_if<CommandLineEnd>(&parsed)) {
        (end->exit_code == 0 ? std::cout : std::cerr) << end->text;
        return end->exit_code;
    }
    int rank = -1;
    try {
        return run(std::get<Options>(parsed), train, rank);
    } catch (const InputError& error) {
        std::cerr << fmt::format("{}: {}\n", program, error.what());
        return kBadInput;
    } catch (const std::exception& error) {
        const std::string who = rank < 0 ? "" : fmt::format("rank {}: ", rank);
        std::cerr << fmt::format("{}: {}{}\n", program, who, error.what());
        return kWorldFailed;
    }
}

}  // namespace ddprun::inline app
