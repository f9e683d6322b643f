// The command line of train_digits as values, and the frame of a program that has it.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "apps/train_digits/replica.hpp"

namespace ddprun::inline app {

struct Options {
    std::string data;
    TrainingPlan plan;
    std::string save;      // empty: do not save; matters on rank 0 only
    std::string evaluate;  // empty: train
    bool quiet = false;
};

// The command line asks for no work: --help and --version (exit code 0, text for stdout), or it is wrong (2,
// one line for stderr that names the flag and the value).
struct CommandLineEnd {
    int exit_code = 0;
    std::string text;
};

// `arguments` without the program's name. Pure.
std::variant<Options, CommandLineEnd> parse_options(std::vector<std::string> arguments);

inline constexpr int kWorldFailed = 1;
inline constexpr int kBadInput = 2;

// Calls `run` with the options and returns its exit code, or says what it throws in one line on stderr: kBadInput
// for InputError, else kWorldFailed. `run` puts this worker's rank into `rank` as soon as it is known.
int run_with_options(const std::string& program, std::vector<std::string> arguments,
                     const std::function<int(const Options&, int& rank)>& run);

}  // namespace ddprun::inline app
