// Several programs on one node: `PROGRAM … : --nproc-per-node N PROGRAM …`. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline app {

struct NodeProgram {
    int workers = 1;                 // at the local ranks behind those of the programs before it
    std::vector<std::string> words;  // its name and arguments, never empty
};

// Takes the programs behind a ":" out of `program`. Only a ":" with --nproc-per-node behind it is one; every other is
// an argument. One "--" in front of such a program, or else directly behind its name, is dropped; an empty
// number is 1. Throws UsageError for one without a number or without a program.
std::vector<NodeProgram> take_further_programs(std::vector<std::string>& program);

}  // namespace ddprun::inline app
