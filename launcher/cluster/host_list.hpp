// A HostList is the hosts of a job, as schedulers and users write them, and which of them this machine is. A
// RankOrder says how ranks are ordered by them. Pure.
//
//   list  = item { separator item }              separator = a comma, blanks and newlines, or both
//   item  = part { part }                        at least one character in total
//   part  = text | "[" range { "," range } "]"   at most kMaxBrackets of the latter
//   range = digits [ "-" digits ]                the first not above the second
//
// A range's numbers are as wide as its first one is written: n[08-11] is n08 n09 n10 n11. Several brackets
// multiply, the last running fastest. Order and repetitions are kept.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

inline constexpr std::size_t kMaxHostListText = 1024 * 1024;
inline constexpr std::size_t kMaxListedHosts = 65'536;
inline constexpr std::size_t kMaxBrackets = 8;
inline constexpr std::size_t kMaxRangeDigits = 18;

// Returns the names, each of at most kMaxHostText bytes, and counts them before it makes them. Else returns
// the complaint that goes behind the list's name ("n[3-1]: the range 3-1 runs backwards").
std::variant<std::vector<std::string>, std::string> expand_host_list(std::string_view text);

// Finds the position of the host of this name in the list, from 0 on. gpu07 and gpu07.example are one host,
// unless another entry has exactly the name. Case does not count. Nothing where several different entries may
// be meant.
std::optional<int> position_of(std::string_view host, const std::vector<std::string>& hosts);

// Writes what expand_host_list reads: gpu[01-03,07], each name once. Names that differ only in their last
// number stand together, by that number. The rest keep their order.
std::string compressed_hosts(const std::vector<std::string>& hosts);

// Names each of these nodes: by its host's name, with its rank behind where several nodes share the name.
std::vector<std::string> node_labels(const std::vector<std::string>& hosts);

// Returns the text up to the first separator outside brackets.
std::string_view next_list_item(std::string_view text, std::string_view separators);

// Returns the words of a file or variable, without the blanks and line ends between them.
std::vector<std::string_view> words_between_blanks(std::string_view text);

// Reads how many tasks each node has, as Slurm writes it: 4(x2),3 is 4 4 3, for at most kMaxListedHosts
// nodes. Else returns the complaint that goes behind the text's name ("4(x0): …").
std::variant<std::vector<int>, std::string> expand_task_counts(std::string_view text);

// HostList: a job's hosts, as far as this node knows of a list.
struct HostList {
    std::vector<std::string> hosts;  // empty: nothing is known
    std::optional<int> position;     // of this machine
    std::string complaint;           // one line about a list that cannot be used; empty: none
};

// --- where a node's ranks are among those of a job, if not by its number (--rank-order)

inline constexpr std::size_t kMaxRankOrderFile = 4 * 1024 * 1024;

// RankOrder: what a node says of its place in the order (Hello::rank_order). An empty text has a complaint of
// one line.
struct RankOrder {
    std::string text;
    std::string complaint;
};

// Orders by the switches that connect the node, as Slurm names them in SLURM_TOPOLOGY_ADDR (s0.s4.gpu07):
// nodes below the same switches are neighbours.
RankOrder order_by_topology(const Environment& environment);

// Orders by a file of hosts in the order of their ranks: lists of hosts in any number of lines, with comments
// from # to the end of the line. Else returns what is wrong with the text, without the file's name: "line 3:
// …".
std::variant<RankOrder, std::string> order_by_file(std::string_view text, const std::string& host_name);

}  // namespace launch
}  // namespace ddprun
