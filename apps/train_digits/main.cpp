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
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <stdexcept>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/files.hpp"
#include "apps/train_digits/fingerprint.hpp"
#include "apps/train_digits/model_file.hpp"
#include "apps/train_digits/options.hpp"
#include "apps/train_digits/trainer.hpp"
#include "collectives/communicator.hpp"
#include "collectives/training.hpp"

namespace ddprun::inline app {
namespace {

// Runs `read` and, if the input is wrong, names the flag it came from.
template <class Read>
auto from_flag(const std::string& flag, Read read) {
    try {
        return read();
    } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", flag, error.what()));
    }
}

// Only rank 0 saves, so only it looks at --save, and all ranks end alike: false on all of them if the model
// cannot go there, after rank 0 has printed why.
bool save_is_possible(Communicator& communicator, const std::string& path) {
    try {
        run_on_rank(communicator, 0, [&] {
            try {
                if (!path.empty()) require_writable_place(path);
            } catch (const InputError& error) {
                std::cerr << fmt::format("train_digits: --save: {}\n", error.what());
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
        std::cout << fmt::format(
                         "train_digits: {} worker{}, {} images to train on, {} to test, {} parameters\n",
                         communicator.world_size(), communicator.world_size() == 1 ? "" : "s",
                         digits.train.size(), digits.test.size(), shape.parameter_count())
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

    std::cout << result_text(took, communicator.world_size(), model.fingerprint)
              << accuracy_text(correct, digits.test.size()) << std::flush;
    if (!options.save.empty()) {
        write_file_atomically(options.save, encode_model(shape, model.parameters));
        std::cout << "saved " << options.save << '\n' << std::flush;
    }
    return 0;
}

int run_evaluation(Communicator& communicator, const Model& model, const DigitsSplit& digits) {
    require_agreement(communicator, fingerprint_of(std::span<const float>(model.parameters)),
                      "the model (--evaluate) is");
    const std::int64_t correct =
        count_correct_together(communicator, model.shape, model.parameters, digits.test);
    if (communicator.rank() == 0) std::cout << accuracy_text(correct, digits.test.size()) << std::flush;
    return 0;
}

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
}  // namespace ddprun::inline app

int main(int argc, char** argv) {
    return ddprun::run_with_options("train_digits", {argv + 1, argv + argc}, ddprun::run);
}
