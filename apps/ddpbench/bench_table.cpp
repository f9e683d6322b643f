#include "apps/ddpbench/bench_table.hpp"

#include <array>
#include <boost/json.hpp>
#include <cstdarg>
#include <cstdio>

namespace ddprun {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
    std::array<char, 256> line{};
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(line.data(), line.size(), pattern, arguments);
    va_end(arguments);
    return line.data();
}

// Seven places, as nccl-tests has it: fewer digits the larger the number.
std::string time_text(double microseconds) {
    if (microseconds >= 10'000) return format("%7.0f", microseconds);
    if (microseconds >= 100) return format("%7.1f", microseconds);
    return format("%7.2f", microseconds);
}

std::string way_text(const std::optional<Measurement>& way, bool statistics) {
    if (!way)
        return format("  %7s  %6s  %6s %6s", "N/A", "N/A", "N/A", "N/A") +
               (statistics ? format(" %7s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A") : "");
    std::string text = format("  %s  %6.2f  %6.2f", time_text(way->time.median).c_str(),
                              way->algorithm_bandwidth, way->bus_bandwidth);
    text += way->wrong ? format(" %6zu", *way->wrong) : format(" %6s", "N/A");
    if (statistics) {
        text += " " + time_text(way->time.min) + " " + time_text(way->time.max) + " " +
                time_text(way->time.p99) + format(" %6.1f", way->time.variation_percent);
    }
    return text;
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
    return format("#\n#%63s%s%39s\n", "out-of-place          ", none.c_str(), "in-place          ") +
           format("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root") +
           format("  %7s  %6s  %6s %6s%s  %7s  %6s  %6s %6s%s\n", "time", "algbw", "busbw", "#wrong", more,
                  "time", "algbw", "busbw", "#wrong", more) +
           format("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s%s  %7s  %6s  %6s\n", "(B)", "(elements)",
                  "", "", "", "(us)", "(GB/s)", "(GB/s)", "", none.c_str(), "(us)", "(GB/s)", "(GB/s)");
}

std::string table_line(const BenchRow& row, bool statistics) {
    return format("%12zu  %12zu  %8s  %6s  %6d", row.bytes, row.count, row.type.c_str(), row.op.c_str(),
                  row.root) +
           way_text(row.out_of_place, statistics) + way_text(row.in_place, statistics) + "\n";
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
    return format("# Out of bounds values : %zu %s\n# Avg bus bandwidth    : %g\n#\n", totals.wrong,
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

}  // namespace ddprun
