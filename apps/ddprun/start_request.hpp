// What the command line says of the hosts of a job and of its workers' variables. Plain values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/start/start_tree.hpp"

namespace ddprun {

struct StartRequest {
    std::string hosts;      // --hosts; empty: not said
    std::string host_file;  // --hostfile; likewise
    std::string include;
    std::string exclude;
    std::vector<std::string> rsh;  // empty: ssh
    int fan_out = kDefaultFanOut;
    bool no_ship = false;
    // The launcher's own words, with whole names, and the program's: for the agents.
    std::vector<std::string> option_words;
    std::vector<std::string> program_words;

    bool is_asked() const { return !hosts.empty() || !host_file.empty(); }
};

// Name and value.
using Variables = std::vector<std::pair<std::string, std::string>>;

}  // namespace ddprun
