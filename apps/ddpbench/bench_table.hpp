// The rows of ddpbench and how they look: nccl-tests' columns. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::inline app {

// Statistics of a row's iterations. Pure.

struct Statistics {
    double median = 0;
    double min = 0;
    double max = 0;
    double p99 = 0;                // nearest rank
    double variation_percent = 0;  // standard deviation / mean
};

// `times` holds at least one.
Statistics statistics_of(std::vector<double> times);

// One way of a row: out of place or in place.
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

// The comment lines above the rows.
std::string table_head(bool statistics);

std::string table_line(const BenchRow& row, bool statistics);

// Over all rows.
struct BenchTotals {
    std::size_t wrong = 0;
    double mean_bus_bandwidth = 0;
};
BenchTotals totals_of(const std::vector<BenchRow>& rows);

std::string table_foot(const BenchTotals& totals);

// The text that --json writes. `operation`, `backend` and `ranks` stand above the rows.
std::string bench_json(const std::string& operation, const std::string& backend, int ranks,
                       const std::vector<BenchRow>& rows);

}  // namespace ddprun::inline app
