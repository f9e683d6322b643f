#include "apps/ddpbench/statistics.hpp"

#include <algorithm>
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

}  // namespace ddprun::inline app
