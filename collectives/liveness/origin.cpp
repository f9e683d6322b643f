#include "collectives/liveness/origin.hpp"

#include <algorithm>

namespace ddprun {
inline namespace detail {

Verdict inherited_verdict(const Verdict& of_parent, std::span<const int> ranks) {
    Verdict verdict{of_parent.code, {}, "the communicator that was split ended: " + of_parent.text};
    for (const int culprit : of_parent.culprits) {
        const auto found = std::find(ranks.begin(), ranks.end(), culprit);
        if (found != ranks.end()) verdict.culprits.push_back(static_cast<int>(found - ranks.begin()));
    }
    std::sort(verdict.culprits.begin(), verdict.culprits.end());
    return verdict;
}

}  // namespace detail
}  // namespace ddprun
