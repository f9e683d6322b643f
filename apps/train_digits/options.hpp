// The command line of train_digits as values. Pure: arguments in, options or a text out.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "apps/train_digits/replica.hpp"

namespace ddprun {

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

// `arguments` without the program's name.
std::variant<Options, CommandLineEnd> parse_options(std::vector<std::string> arguments);

}  // namespace ddprun
