#include "rendezvous/membership/exclusion.hpp"

#include <fmt/core.h>

namespace ddprun {
inline namespace job {

std::string Exclusion::reason(int place, const std::string& host) const {
    const int rounds = rounds_of(place, host);
    return fmt::format("its workers failed first in {} round{} (--exclude-after {})", rounds,
                       rounds == 1 ? "" : "s", after_);
}

}  // namespace job
}  // namespace ddprun
