// PathFacts fill the signs in the paths of what a job leaves: --log-dir runs/%t-%j. Pure.
//
//   %t  when the job was first started, as 20261121-043202 in UTC: the same on all its nodes and in all its
//       rounds
//   %j  its --rdzv-id
//   %h  this node's host name
//   %r  its number, as its launcher knows it before the nodes meet: 0 where it is alone, --node-rank, the
//       scheduler's
//   %%  %
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace launch {

struct PathFacts {
    std::int64_t start_unix_s =
        0;  // of the job, DDPRUN_START_TIME; of this launcher while no round has begun
    std::string run_id;
    std::string host;
    int node_rank = -1;  // of this node in the round; -1: the job has one node
};

// Returns what is wrong with the signs, in words to go behind the flag and its value; nothing if all are
// signs of the table above.
std::optional<std::string> path_complaint(std::string_view text);

// Returns the path of a text without a complaint and without %r. An id or a name leads to no other folder,
// whatever it says.
std::string filled_path(std::string_view text, const PathFacts& facts);

// Returns true if %r is in the text; with_node_rank() returns the text with that filled in and all other
// signs as they are.
bool names_node_rank(std::string_view text);
std::string with_node_rank(std::string_view text, int node_rank);

// Returns the folders at the beginning of `text` that have no signs, or all of it if it has none: what can be
// tried before the job is known.
std::filesystem::path fixed_part(const std::filesystem::path& text);

// Makes free text a part of a path: the part leads to no other folder, and has a length that file systems
// take.
std::string as_path_part(std::string_view text);

}  // namespace launch
}  // namespace ddprun
