#include "rendezvous/coordinator/first_failure.hpp"

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

namespace ddprun::inline job {

void FirstFailure::contend(int rank) {
    if (!is_suspect(rank)) contenders_.insert(rank);
}

Failure& FirstFailure::tell(int teller, Failure failure) {
    const auto earlier = std::find_if(told_.begin(), told_.end(), [teller](const Told& told) {
        return told.teller == teller && told.failure.kind == Failure::Kind::worker_failed;
    });
    if (earlier == told_.end()) return told_.emplace_back(Told{teller, std::move(failure)}).failure;
    return earlier->failure = std::move(failure);
}

std::optional<Failure> FirstFailure::first(const EndOfRank& end_of) const {
    if (told_.empty()) return std::nullopt;
    const Failure* first = &told_.front().failure;
    if (first->kind != Failure::Kind::worker_failed) return *first;
    std::vector<const Failure*> known;
    for (const Told& told : told_) {
        if (is_before(told.failure, *first)) first = &told.failure;
        known.push_back(&told.failure);
    }
    return culprit_of(*first, known, end_of);
}

bool FirstFailure::is_before(const Failure& failure, const Failure& first) const {
    const std::size_t place = place_among_suspects(failure.rank);
    const std::size_t place_of_first = place_among_suspects(first.rank);
    if (place != place_of_first) return place < place_of_first;
    const bool was_killed = failure.signal != 0 && failure.signal != SIGABRT && failure.signal != SIGPIPE;
    return is_contender(failure.rank) && was_killed && first.signal == 0;
}

// One that is no suspect stands behind all of them.
std::size_t FirstFailure::place_among_suspects(int rank) const {
    const auto suspect = suspects_.find(rank);
    return suspect == suspects_.end() ? suspects_.size() : suspect->second;
}

}  // namespace ddprun::inline job
