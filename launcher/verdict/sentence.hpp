// sentence_of() and the functions here put what was seen of ranks into words, fit for a terminal. Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/verdict/rank_state.hpp"
#include "launcher/verdict/verdict.hpp"

namespace ddprun {
inline namespace launch {

// Returns "rank 3", "ranks 0-2,4-15"; parse_rank_set() reads what stands behind the word.
std::string named_ranks(const std::vector<int>& ranks);

// Returns the base name of the file with the line: "data.py:88".
std::string line_text(const Frame& frame);

// Returns what one rank does: "waits for a file system in next_batch (data.py:88), /mnt/shards/0113.tar".
std::string doing_text(const RankState& state);

// Returns what doing_text() has returned as what was so: "waited for a file system in ...".
std::string past_text(const std::string& doing);

// Returns one sentence for what was found among the ranks; empty for `none`.
std::string sentence_of(const std::vector<RankState>& states, const HangVerdict& found);

// Returns what else speaks for it, kMaxEvidence lines at most.
std::vector<std::string> evidence_of(const std::vector<RankState>& states, const HangVerdict& found,
                                     std::chrono::milliseconds quiet);

}  // namespace launch
}  // namespace ddprun
