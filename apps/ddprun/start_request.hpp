// What the command line says of the hosts of a job and of its workers' variables. Plain values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cluster/family.hpp"
#include "launcher/start/start_tree.hpp"

namespace ddprun::inline app {

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

    // The hosts of an allocation that this process is in, where it starts their agents without being asked.
    struct Allocation {
        std::vector<ListedHost> hosts;
        std::string source;            // the variable that names them
        std::optional<int> own_place;  // whose agent this process starts itself
        std::string reached_by;        // the remote shell, unless `rsh` is said
        std::string run_id;            // of the scheduler's job; empty: not known, or the user's counts
        bool by_gpus = false;          // a worker for each GPU of a host, else as many as the host has slots
    };
    std::optional<Allocation> allocation;

    bool is_asked() const { return !hosts.empty() || !host_file.empty() || allocation; }
};

// Name and value.
using Variables = std::vector<std::pair<std::string, std::string>>;

}  // namespace ddprun::inline app
