// run_program() is the frame of a program that trains on the digits: its command line, its checks that all
// ranks agree and what rank 0 prints. The training itself is main.cpp's, or that of train_digits_gpu.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "apps/train_digits/mlp.hpp"
#include "collectives/communicator.hpp"

namespace ddprun {
inline namespace app {

struct Options {
    std::string data;
    TrainingPlan plan;
    std::string save;  // empty: do not save; matters on rank 0 only
    bool quiet = false;
    std::string help;  // --help asks for nothing but this text
};

// parse_options takes the arguments without the program's name. Throws InputError. Pure.
Options parse_options(std::vector<std::string> arguments);

using Totals = std::array<double, kTotals>;

// show_epoch prints, on rank 0, "epoch 3/40  loss 0.123456  accuracy 0.9612". Throws if the loss is no longer
// a finite number.
void show_epoch(const Options& options, int rank, int epoch, const Totals& totals);

// A Train makes all passes, calls show_epoch after each, and returns the trained parameters. The communicator
// is for buffers of the host. Time counts from `started`, which the Train may set anew.
using Train = std::function<std::vector<float>(Communicator&, const Digits& train, const Options&,
                                               std::chrono::steady_clock::time_point& started)>;

// run_program is the whole program and returns its exit code. What goes wrong is one line on stderr: an
// InputError is 2, all else 1: another rank is lost, ranks disagree, the training fails or a result cannot be
// written.
int run_program(const std::string& program, std::vector<std::string> arguments, const Train& train);

}  // namespace app
}  // namespace ddprun
