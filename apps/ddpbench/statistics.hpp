// Of a row's iterations. Pure.
#pragma once

#include <vector>

namespace ddprun::inline app {

struct Statistics {
    double median = 0;
    double min = 0;
    double max = 0;
    double p99 = 0;                // nearest rank
    double variation_percent = 0;  // standard deviation / mean
};

// At least one time.
Statistics statistics_of(std::vector<double> times);

}  // namespace ddprun::inline app
