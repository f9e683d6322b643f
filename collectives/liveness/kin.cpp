#include "collectives/liveness/kin.hpp"

#include <algorithm>

namespace ddprun {

Verdict passed_on(const Verdict& elders, std::span<const int> ranks) {
    Verdict verdict{elders.code, {}, "the communicator that was split ended: " + elders.text};
    for (const int culprit : elders.culprits) {
        const auto found = std::find(ranks.begin(), ranks.end(), culprit);
        if (found != ranks.end()) verdict.culprits.push_back(static_cast<int>(found - ranks.begin()));
    }
    std::sort(verdict.culprits.begin(), verdict.culprits.end());
    return verdict;
}

}  // namespace ddprun
