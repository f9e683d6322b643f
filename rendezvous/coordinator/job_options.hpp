// Elasticity, RestartOptions and ExitWaitOptions are what node 0's user says about a job's rounds: their
// nodes, when another one follows, and how long ranks may outlast others. Plain values; node 0's count.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace job {

// Resize: when a node that comes while workers run is let in.
enum class Resize {
    now,      // the round ends for it
    failure,  // when a round ends anyway
    never,    // only in the place of a lost node
};
BOOST_DESCRIBE_ENUM(Resize, now, failure, never)

struct Elasticity {
    // min_nodes: the least number of nodes with which the job begins or goes on; nothing: all of --nnodes.
    std::optional<int> min_nodes;
    int spares = 0;  // how many of all nodes wait until another one is lost
    // last_call: how long further nodes are awaited, before the first round, once min_nodes are there.
    std::chrono::milliseconds last_call{30'000};
    Resize resize = Resize::now;
    // exclude_after: rounds in which a node's workers were the culprit, after which the node is left out
    // where the job can do without it; 0: never.
    int exclude_after = 3;

    // Returns whether nodes may go and come without that being a failure.
    bool is_elastic() const { return min_nodes.has_value(); }
    int least(int nnodes) const { return min_nodes.value_or(nnodes); }
    // Returns how many nodes run at the same time at most.
    int seats(int nnodes) const { return nnodes - spares; }
};

// CodeRange: exit codes as a shell reports them (128+n for signal n).
using CodeRange = NumberSpan;

// Reads "2", "2,64-78": nothing for another form or for codes outside 1..255.
inline std::optional<std::vector<CodeRange>> parse_code_ranges(const std::string& text) {
    const auto ranges = parse_number_set(text, 1, 255);
    const auto* spans = std::get_if<std::vector<NumberSpan>>(&ranges);
    return spans != nullptr ? std::optional(*spans) : std::nullopt;
}

struct RestartOptions {
    int max_restarts = 0;
    std::optional<std::vector<CodeRange>> restart_on;  // only these, if given
    std::vector<CodeRange> no_restart_on;              // never these
    std::chrono::milliseconds backoff_min{0};
    std::chrono::milliseconds backoff_max{0};
    std::chrono::milliseconds min_uptime{10'000};
    bool has_progress_file = false;
    int same_failure = 3;     // as many in a row end the job; 0: no limit
    bool after_hang = false;  // a hang is followed by another round (--hang-timeout S:restart)
};

// ExitWaitOptions: --exit-wait: how long after the first rank has ended with 0 the others may go on.
struct ExitWaitOptions {
    std::chrono::milliseconds wait{0};
    bool kill = false;  // end the ranks that still run then, as after a failure
    std::string text;   // as the user wrote it
};

}  // namespace job
}  // namespace ddprun
