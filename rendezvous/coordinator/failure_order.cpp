#include "rendezvous/coordinator/failure_order.hpp"

#include <csignal>

namespace ddprun {

void FailureOrder::suspect(int rank) { suspects_.try_emplace(rank, suspects_.size()); }

void FailureOrder::contend(int rank) {
    if (!is_suspect(rank)) contenders_.insert(rank);
}

bool FailureOrder::is_before(const Failure& failure, const Failure& first) const {
    const std::size_t place = place_among_suspects(failure.rank);
    const std::size_t place_of_first = place_among_suspects(first.rank);
    if (place != place_of_first) return place < place_of_first;
    return is_killed_contender(failure) && first.signal == 0;
}

// Behind all of them for one that is none.
std::size_t FailureOrder::place_among_suspects(int rank) const {
    const auto suspect = suspects_.find(rank);
    return suspect == suspects_.end() ? suspects_.size() : suspect->second;
}

bool FailureOrder::is_killed_contender(const Failure& failure) const {
    return is_contender(failure.rank) && failure.signal != 0 && failure.signal != SIGABRT &&
           failure.signal != SIGPIPE;
}

}  // namespace ddprun
