// The hosts of a job as schedulers and users write them, and which of them this machine is. Pure.
//
//   list  = item { separator item }              separator = a comma, blanks and newlines, or both
//   item  = part { part }                        at least one character in total
//   part  = text | "[" range { "," range } "]"   at most kMaxBrackets of the latter
//   range = digits [ "-" digits ]                the first not above the second
//
// A range's numbers are as wide as its first one is written: n[08-11] is n08 n09 n10 n11. Several brackets multiply, the
// last running fastest. Order and repetitions are kept.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::inline launch {

inline constexpr std::size_t kMaxHostListText = 1024 * 1024;
inline constexpr std::size_t kMaxListedHosts = 65'536;
inline constexpr std::size_t kMaxBrackets = 8;
inline constexpr std::size_t kMaxRangeDigits = 18;

// The names, each of at most kMaxHostText bytes; or why there are none, which goes behind the list's name ("n[3-1]:
// the range 3-1 runs backwards"). Counts before it makes them.
std::variant<std::vector<std::string>, std::string> expand_host_list(std::string_view text);

// Where the host of this name is in the list, from 0 on. gpu07 and gpu07.example are one host, unless another entry is
// the very name; capitals do not count. Nothing where several different entries may be meant.
std::optional<int> position_of(std::string_view host, const std::vector<std::string>& hosts);

// A job's hosts, as far as this node knows of a list.
struct HostList {
    std::vector<std::string> hosts;  // empty: of none
    std::optional<int> position;     // of this machine
    std::string complaint;           // one line about a list that cannot be used; empty: none
};

}  // namespace ddprun::inline launch
