// Runs one operation over all sizes, types and reductions of the command line.
#pragma once

#include <functional>
#include <vector>

#include "apps/ddpbench/bench_options.hpp"
#include "apps/ddpbench/bench_table.hpp"

namespace ddprun::inline app {

// The row of a size that cannot be shared out, or of a reduction that the type does not have, is left out.
// Every rank calls it, with the same options; the same rows come back on all. `show` is told each row as soon
// as it is complete. Throws CollectiveError.
std::vector<BenchRow> run_benchmark(Communicator& communicator, const BenchOptions& options,
                                    const std::function<void(const BenchRow&)>& show);

// "cpu", or NCCL and the device of this rank's buffers. Throws CollectiveError.
std::string backend_text(const Communicator& communicator);

}  // namespace ddprun::inline app
