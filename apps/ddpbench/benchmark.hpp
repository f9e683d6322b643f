// run_benchmark() runs one operation over all sizes, types and reductions of the command line. The rows are
// shown in nccl-tests' columns.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/ddpbench/bench_options.hpp"
#include "apps/ddpbench/benchmark.hpp"

namespace ddprun {
inline namespace app {

// Statistics of the times of a row's iterations, in the unit of those times. Pure, like all of the table.
struct Statistics {
    double median = 0;
    double min = 0;
    double max = 0;
    double p99 = 0;                // nearest rank
    double variation_percent = 0;  // standard deviation / mean
};

// Returns the statistics of `times`, which holds at least one.
Statistics statistics_of(std::vector<double> times);

// A Measurement is one way of a row: out of place or in place.
struct Measurement {
    Statistics time;                   // microseconds, of the ranks that --average chooses
    double algorithm_bandwidth = 0;    // GB/s, of 10^9 bytes
    double bus_bandwidth = 0;          // GB/s
    std::optional<std::size_t> wrong;  // elements on all ranks; nothing if they were not checked
};

struct BenchRow {
    std::size_t bytes = 0;
    std::size_t count = 0;
    std::string type;
    std::string op = "none";
    int root = -1;
    std::optional<Measurement> out_of_place;
    std::optional<Measurement> in_place;
};

// Returns the comment lines above the rows.
std::string table_head(bool statistics);

std::string table_line(const BenchRow& row, bool statistics);

struct BenchTotals {
    std::size_t wrong = 0;
    double mean_bus_bandwidth = 0;
};
BenchTotals totals_of(const std::vector<BenchRow>& rows);

std::string table_foot(const BenchTotals& totals);

// Returns the text that --json writes. `operation`, `backend` and `ranks` stand above the rows.
std::string bench_json(const std::string& operation, const std::string& backend, int ranks,
                       const std::vector<BenchRow>& rows);

// Returns the rows, the same on all ranks. Every rank calls it, with the same options. The row of a size that
// cannot be shared out, or of a reduction that the type does not have, is left out. `show` is told each row
// as soon as it is complete. Throws CollectiveError.
std::vector<BenchRow> run_benchmark(Communicator& communicator, const BenchOptions& options,
                                    const std::function<void(const BenchRow&)>& show);

// Returns "cpu", or NCCL and the device of this rank's buffers. Throws CollectiveError.
std::string backend_text(const Communicator& communicator);

}  // namespace app
}  // namespace ddprun
