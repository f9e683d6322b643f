#include "apps/ddpbench/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "rendezvous/system/check.hpp"

namespace ddprun {

Statistics statistics_of(std::vector<double> times) {
    check(!times.empty(), "statistics of nothing");
    std::sort(times.begin(), times.end());
    const std::size_t count = times.size();
    Statistics result;
    result.median = (times[(count - 1) / 2] + times[count / 2]) / 2;
    result.min = times.front();
    result.max = times.back();
    result.p99 = times[static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(count))) - 1];
    double sum = 0;
    for (double time : times) sum += time;
    const double mean = sum / static_cast<double>(count);
    double squares = 0;
    for (double time : times) squares += (time - mean) * (time - mean);
    if (mean > 0) result.variation_percent = 100 * std::sqrt(squares / static_cast<double>(count)) / mean;
    return result;
}

}  // namespace ddprun
