// Where a node's ranks are among those of a job, if not by its number (--rank-order). Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

inline constexpr std::size_t kMaxRankOrderFile = 4 * 1024 * 1024;

// What the node says of itself (Hello::rank_order); empty, with a complaint of one line: it can say nothing.
struct RankOrder {
    std::string text;
    std::string complaint;
};

// By the switches that it is connected through, as Slurm names them in SLURM_TOPOLOGY_ADDR (s0.s4.gpu07): nodes below
// the same ones are neighbours.
RankOrder order_by_topology(const Environment& environment);

// By a file of hosts in the order of their ranks: lists of hosts (host_list.hpp) in as many lines as one likes, # to
// the end of a line is a comment. A text without the file's name says what is wrong with it: "line 3: …".
std::variant<RankOrder, std::string> order_by_file(std::string_view text, const std::string& host_name);

}  // namespace ddprun::inline launch
