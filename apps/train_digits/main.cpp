// train_digits: trains a classifier of handwritten digits, data-parallel over all workers of a job.
//
//   ddprun --nproc-per-node 4 train_digits --data apps/data/digits.csv
//
// Rank 0 prints loss and accuracy of each epoch, then the accuracy on images it was not trained on; every
// rank ends with bit-equal parameters, which is checked.
//
// Exit codes: 0 done. 1 the world failed, one line on stderr names this rank and the cause: another worker
// was lost, ranks disagree, the loss is not a number, or a result cannot be written. 2 wrong command line or
// file, one line on stderr names it.
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <variant>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/files.hpp"
#include "apps/train_digits/fingerprint.hpp"
#include "apps/train_digits/input_error.hpp"
#include "apps/train_digits/model_file.hpp"
#include "apps/train_digits/options.hpp"
#include "apps/train_digits/trainer.hpp"
#include "collectives/communicator.hpp"
#include "collectives/training.hpp"

namespace ddprun {
namespace {

constexpr int kWorldFailed = 1;
constexpr int kBadInput = 2;

// Runs `read` and, if the input is wrong, names the flag it came from.
template <class Read>
auto from_flag(const std::string& flag, Read read) {
    try {
        return read();
    } catch (const InputError& error) {
        throw InputError(flag + ": " + error.what());
    }
}

void print_accuracy(std::int64_t correct, std::size_t images) {
    std::array<char, 80> line{};
    std::snprintf(line.data(), line.size(), "test accuracy %.4f (%lld of %zu)\n",
                  static_cast<double>(correct) / static_cast<double>(images), static_cast<long long>(correct),
                  images);
    std::cout << line.data() << std::flush;
}

// Only rank 0 saves, so only it looks at --save, and all ranks end alike: false on all of them if the model
// cannot go there, after rank 0 has printed why.
bool save_is_possible(Communicator& communicator, const std::string& path) {
    try {
        run_on_rank(communicator, 0, [&] {
            try {
                if (!path.empty()) require_writable_place(path);
            } catch (const InputError& error) {
                std::cerr << "train_digits: --save: " + std::string(error.what()) + "\n";
                throw;
            }
        });
        return true;
    } catch (const InputError&) {
        return false;
    } catch (const ActionFailed&) {
        return false;
    }
}

int run_training(Communicator& communicator, const Options& options, const DigitsSplit& digits) {
    const bool first = communicator.rank() == 0;
    if (!save_is_possible(communicator, options.save)) return kBadInput;
    require_agreement(communicator, fingerprint_of(options.plan), "the training flags are");

    const MlpShape shape = shape_of(options.plan);
    if (first && !options.quiet) {
        std::cout << "train_digits: " << communicator.world_size()
                  << (communicator.world_size() == 1 ? " worker, " : " workers, ") << digits.train.size()
                  << " images to train on, " << digits.test.size() << " to test, " << shape.parameter_count()
                  << " parameters\n"
                  << std::flush;
    }
    const auto started = std::chrono::steady_clock::now();
    const ProgressStyle style = options.quiet                  ? ProgressStyle::none
                                : ::isatty(STDOUT_FILENO) == 1 ? ProgressStyle::bar
                                                               : ProgressStyle::lines;
    const TrainedModel model = train(communicator, digits.train, options.plan, std::cout, style);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    const std::int64_t correct = count_correct_together(communicator, shape, model.parameters, digits.test);
    if (!first) return 0;

    std::array<char, 64> seconds{};
    std::snprintf(seconds.data(), seconds.size(), "trained in %.2f s\n", took.count());
    std::cout << seconds.data() << "parameters checked: bit-equal on " << communicator.world_size() << " of "
              << communicator.world_size() << " ranks (fingerprint " << hexadecimal(model.fingerprint)
              << ")\n";
    print_accuracy(correct, digits.test.size());
    if (!options.save.empty()) {
        write_file_atomically(options.save, encode_model(shape, model.parameters));
        std::cout << "saved " << options.save << '\n' << std::flush;
    }
    return 0;
}

int run_evaluation(Communicator& communicator, const Model& model, const DigitsSplit& digits) {
    Fingerprint fingerprint;
    fingerprint.add_values(std::span(model.parameters));
    require_agreement(communicator, fingerprint.value(), "the model (--evaluate) is");
    const std::int64_t correct =
        count_correct_together(communicator, model.shape, model.parameters, digits.test);
    if (communicator.rank() == 0) print_accuracy(correct, digits.test.size());
    return 0;
}

// `rank` becomes this worker's as soon as it is known.
int run(const Options& options, int& rank) {
    const DigitsSplit digits = split_digits(from_flag("--data", [&] { return read_digits(options.data); }));
    Model model;
    const bool evaluate = !options.evaluate.empty();
    if (evaluate) model = from_flag("--evaluate", [&] { return read_model(options.evaluate); });

    Communicator communicator = Communicator::from_env();
    rank = communicator.rank();
    require_agreement(communicator, fingerprint_of(digits), "the images (--data) are");
    const int code =
        evaluate ? run_evaluation(communicator, model, digits) : run_training(communicator, options, digits);
    if (!std::cout) throw std::runtime_error("standard output cannot be written");
    return code;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
    const auto parsed = ddprun::parse_options({argv + 1, argv + argc});
    if (const auto* end = std::get_if<ddprun::CommandLineEnd>(&parsed)) {
        (end->exit_code == 0 ? std::cout : std::cerr) << end->text;
        return end->exit_code;
    }
    int rank = -1;
    try {
        return ddprun::run(std::get<ddprun::Options>(parsed), rank);
    } catch (const ddprun::InputError& error) {
        std::cerr << "train_digits: " + std::string(error.what()) + "\n";
        return ddprun::kBadInput;
    } catch (const std::exception& error) {
        const std::string who = rank < 0 ? "" : "rank " + std::to_string(rank) + ": ";
        std::cerr << "train_digits: " + who + error.what() + "\n";
        return ddprun::kWorldFailed;
    }
}
