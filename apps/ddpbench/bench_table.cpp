#include "apps/ddpbench/bench_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <numeric>

#include "rendezvous/system/check.hpp"

namespace ddprun::inline app {

Statistics statistics_of(std::vector<double> times) {
    check(!times.empty(), "statistics of nothing");
    std::sort(times.begin(), times.end());
    const std::size_t places = times.size();
    const auto count = static_cast<double>(places);
    const double mean = std::accumulate(times.begin(), times.end(), 0.0) / count;
    double squares = 0;
    for (double time : times) squares += (time - mean) * (time - mean);
    return {.median = (times[(places - 1) / 2] + times[places / 2]) / 2,
            .min = times.front(),
            .max = times.back(),
            .p99 = times[static_cast<std::size_t>(std::ceil(0.99 * count)) - 1],
            .variation_percent = mean > 0 ? 100 * std::sqrt(squares / count) / mean : 0};
}

namespace {

// Seven places, as nccl-tests has it: fewer digits the larger the number.
std::string time_text(double microseconds) {
    if (microseconds >= 10'000) return fmt::format("{:7.0f}", microseconds);
    if (microseconds >= 100) return fmt::format("{:7.1f}", microseconds);
    return fmt::format("{:7.2f}", microseconds);
}

std::string way_text(const std::optional<Measurement>& way, bool statistics) {
    if (!way)
        return fmt::format("  {0:>7}  {0:>6}  {0:>6} {0:>6}", "N/A") +
               (statistics ? fmt::format(" {0:>7} {0:>7} {0:>7} {0:>6}", "N/A") : "");
    std::string text = fmt::format("  {}  {:6.2f}  {:6.2f}", time_text(way->time.median),
                                   way->algorithm_bandwidth, way->bus_bandwidth);
    text += way->wrong ? fmt::format(" {:6}", *way->wrong) : "    N/A";
    if (!statistics) return text;
    return fmt::format("{} {} {} {} {:6.1f}", text, time_text(way->time.min), time_text(way->time.max),
                       time_text(way->time.p99), way->time.variation_percent);
}

boost::json::value way_json(const std::optional<Measurement>& way) {
    if (!way) return nullptr;
    boost::json::object object{{"time_us", way->time.median},           {"time_min_us", way->time.min},
                               {"time_max_us", way->time.max},          {"time_p99_us", way->time.p99},
                               {"algbw_gbs", way->algorithm_bandwidth}, {"busbw_gbs", way->bus_bandwidth}};
    if (way->wrong) object["wrong"] = *way->wrong;
    return object;
}

}  // namespace

std::string table_head(bool statistics) {
    const std::string none = statistics ? std::string(31, ' ') : "";
    const char* const more = statistics ? "   i_min   i_max   i_p99  i_cv%" : "";
    return fmt::format("#\n#{:>63}{}{:>39}\n", "out-of-place          ", none, "in-place          ") +
           fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root") +
           fmt::format("  {0:>7}  {1:>6}  {2:>6} {3:>6}{4}  {0:>7}  {1:>6}  {2:>6} {3:>6}{4}\n", "time",
                       "algbw", "busbw", "#wrong", more) +
           fmt::format("# {:>10}  {:>12}  {:24}  {:>7}  {:>6}  {:>6} {:6}{}  {:>7}  {:>6}  {:>6}\n", "(B)",
                       "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "", none, "(us)", "(GB/s)", "(GB/s)");
}

std::string table_line(const BenchRow& row, bool statistics) {
    return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}{}{}\n", row.bytes, row.count, row.type, row.op,
                       row.root, way_text(row.out_of_place, statistics), way_text(row.in_place, statistics));
}

BenchTotals totals_of(const std::vector<BenchRow>& rows) {
    BenchTotals totals;
    double sum = 0;
    int ways = 0;
    for (const BenchRow& row : rows) {
        for (const auto& way : {row.out_of_place, row.in_place}) {
            if (!way) continue;
            totals.wrong += way->wrong.value_or(0);
            sum += way->bus_bandwidth;
            ++ways;
        }
    }
    if (ways > 0) totals.mean_bus_bandwidth = sum / ways;
    return totals;
}

std::string table_foot(const BenchTotals& totals) {
    return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n#\n", totals.wrong,
                       totals.wrong == 0 ? "OK" : "FAILED", totals.mean_bus_bandwidth);
}

std::string bench_json(const std::string& operation, const std::string& backend, int ranks,
                       const std::vector<BenchRow>& rows) {
    boost::json::array list;
    for (const BenchRow& row : rows) {
        list.push_back(boost::json::object{{"size", row.bytes},
                                           {"count", row.count},
                                           {"type", row.type},
                                           {"redop", row.op},
                                           {"root", row.root},
                                           {"out_of_place", way_json(row.out_of_place)},
                                           {"in_place", way_json(row.in_place)}});
    }
    const BenchTotals totals = totals_of(rows);
    return boost::json::serialize(boost::json::object{{"version", DDPRUN_VERSION},
                                                      {"operation", operation},
                                                      {"backend", backend},
                                                      {"ranks", ranks},
                                                      {"rows", std::move(list)},
                                                      {"wrong", totals.wrong},
                                                      {"avg_busbw_gbs", totals.mean_bus_bandwidth}}) +
           "\n";
}

}  // namespace ddprun::inline app
