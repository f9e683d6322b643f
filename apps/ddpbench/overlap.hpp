// How much of an all_reduce goes on behind the caller's own computation: `ddpbench all_reduce --overlap`.
//
// For every size three times in turn: an all_reduce alone, a computation alone that takes as long, and both
// at once, the all_reduce started before. Hidden is the part of the all_reduce that cost the caller nothing:
// 1 if both together take as long as one of them, 0 if they take as long as one after the other. It needs a
// core for each rank beside the one that computes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/ddpbench/bench_options.hpp"

namespace ddprun::inline app {

// Medians, in microseconds; the slowest rank's.
struct OverlapRow {
    std::size_t bytes = 0;
    double alone = 0;
    double computing = 0;
    double together = 0;

    // Between 0 and 1, or beyond by noise.
    double hidden() const;
};

// Called by all ranks. Throws CollectiveError.
std::vector<OverlapRow> run_overlap(Communicator& communicator, const BenchOptions& options);

std::string overlap_table(const std::vector<OverlapRow>& rows);

}  // namespace ddprun::inline app
