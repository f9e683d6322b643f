// An environment as it was captured on a cluster, or written down as one would be, with what is to be made of
// it.
//
//   # what this is
//   NAME=value                 a variable; \n in it is a line break
//   @host NAME                 of this machine
//   @address ADDRESS           one of its own; several
//   @file PATH                 a file, whose lines follow, each behind a |
//   @said FACT VALUE SOURCE    nodes, rank, address or port, as an option said it
//   @scheduler NAME  @one-node  @unnumbered  @adapts
//   ---
//   the lines of cluster_lines()
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cluster/cluster_table.hpp"

namespace ddprun {

struct CapturedEnvironment {
    ClusterView view;
    ClusterRequest request;
    std::string given;  // the file up to and with the line of dashes
    std::string expected;
};

// Throws std::runtime_error for a file that is none.
CapturedEnvironment read_captured(const std::filesystem::path& file);

// All of them, in the order of their names.
std::vector<std::filesystem::path> captured_files();

}  // namespace ddprun
