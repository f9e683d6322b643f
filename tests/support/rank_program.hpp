// The main function of programs that are ranks in tests: how they tell what they ended with.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "collectives/error.hpp"

namespace ddprun {

// Runs run(arguments) and returns the exit code: 0, or 3 after printing a CollectiveError as
// "error CODE CULPRIT…: TEXT", or 1 after any other.
template <class Run>
int run_rank_program(int argc, char** argv, Run run) {
    try {
        run(std::vector<std::string>(argv + 1, argv + argc));
        return 0;
    } catch (const CollectiveError& error) {
        std::printf("error %s", std::string(name_of(error.code())).c_str());
        for (const int rank : error.culprits()) std::printf(" %d", rank);
        std::printf(": %s\n", error.what());
        return 3;
    } catch (const std::exception& error) {
        std::printf("failed: %s\n", error.what());
        return 1;
    }
}

}  // namespace ddprun
