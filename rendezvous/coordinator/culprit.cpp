#include "rendezvous/coordinator/culprit.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <sstream>

namespace ddprun::inline job {
namespace {

std::optional<Accusation> accusation_in_file(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (auto found = find_accusation(line)) return found;
    }
    return std::nullopt;
}

void place_at(Failure& failure, const RankEnd& end) {
    failure.rank = end.rank;
    failure.local_rank = end.local_rank;
    failure.node_rank = end.node_rank;
    failure.host = end.host;
    failure.pid = end.pid;
}

// The rank has failed by itself, but its last words are not known here.
Failure own_failure(const RankEnd& end, const Failure& witness, const Accusation& accusation) {
    Failure failure{.kind = Failure::Kind::worker_failed};
    place_at(failure, end);
    failure.exit_code = end.exit_code;
    failure.signal = end.signal;
    failure.core_dumped = end.core_dumped;
    failure.unix_time_ms = witness.unix_time_ms;
    failure.message = fmt::format("rank {} says: {}", witness.rank, accusation.sentence);
    return failure;
}

Failure laid_on(const RankEnd& end, const Failure& witness, const Accusation& accusation) {
    Failure failure = witness;
    place_at(failure, end);
    failure.witness = witness.rank;
    failure.accusation = report_of(accusation.charge);
    failure.testimony = accusation.sentence;
    return failure;
}

}  // namespace

std::optional<Accusation> accusation_of(const Failure& failure) {
    if (failure.kind != Failure::Kind::worker_failed) return std::nullopt;
    if (failure.signal != 0 && failure.signal != SIGABRT) return std::nullopt;
    if (!failure.error_message.empty()) return accusation_in_file(failure.error_message);
    std::size_t words = 0;
    for (auto line = failure.last_lines.rbegin(); line != failure.last_lines.rend(); ++line) {
        if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
        if (auto found = find_accusation(*line)) return found;
        if (++words == kLastWords) break;
    }
    return std::nullopt;
}

Failure culprit_of(const Failure& first, const std::vector<const Failure*>& known, const EndOfRank& end_of) {
    const Failure* witness = &first;
    std::set<int> blamed;
    for (;;) {
        const auto accusation = accusation_of(*witness);
        if (!accusation || accusation->rank == witness->rank) return *witness;
        blamed.insert(witness->rank);
        const int rank = accusation->rank;
        if (blamed.contains(rank)) return first;
        const auto own = std::find_if(known.begin(), known.end(),
                                      [rank](const Failure* failure) { return failure->rank == rank; });
        if (own != known.end()) {
            const auto further = accusation_of(**own);
            if (is_about_end(accusation->charge) || (further && further->rank != rank)) {
                witness = *own;
                continue;
            }
        }
        const auto end = end_of(rank);
        if (!end) return *witness;
        const bool failed = end->manner == RankEnd::Manner::failed;
        return failed && is_about_end(accusation->charge) ? own_failure(*end, *witness, *accusation)
                                                          : laid_on(*end, *witness, *accusation);
    }
}

}  // namespace ddprun::inline job
