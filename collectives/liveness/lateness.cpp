#include "collectives/liveness/lateness.hpp"

#include <algorithm>
#include <string>

#include "collectives/liveness/disagreement.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kMaxRanksInText = 8;

std::string seconds(std::chrono::milliseconds limit) {
    std::string text = std::to_string(limit.count() / 1000);
    if (const auto rest = limit.count() % 1000; rest != 0)
        text += '.' + std::to_string(1000 + rest).substr(1);
    return text + " s";
}

std::string whereabouts(int rank, const std::optional<Call>& call) {
    if (!call) return accuse(rank, Charge::does_not_answer);
    if (call->operation == Operation::none) return accuse(rank, Charge::called_nothing);
    return accuse(rank, Charge::is_elsewhere) + ' ' + describe(*call);
}

std::string list(const std::vector<int>& ranks, const std::vector<std::optional<Call>>& progress) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size() && i < kMaxRanksInText; ++i) {
        if (i > 0) text += ", ";
        text += whereabouts(ranks[i], progress[static_cast<std::size_t>(ranks[i])]);
    }
    if (ranks.size() > kMaxRanksInText)
        text += ", and " + std::to_string(ranks.size() - kMaxRanksInText) + " more";
    return text;
}

// Of the ranks whose messages are awaited: those that are in nothing that has messages to single ranks, if
// there are any; the others wait themselves, perhaps.
std::vector<int> late_peers(const std::vector<std::optional<Call>>& progress, std::vector<int> awaited) {
    std::sort(awaited.begin(), awaited.end());
    awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
    std::vector<int> away;
    for (const int peer : awaited) {
        const auto& theirs = progress[static_cast<std::size_t>(peer)];
        if (!theirs || !is_point_to_point(theirs->operation)) away.push_back(peer);
    }
    return away.empty() ? awaited : away;
}

// What a rank has done, towards `call`.
std::string deed(const Call& theirs, const Call& call) {
    if (is_point_to_point(theirs.operation)) return "is at " + describe(theirs);
    return theirs.sequence < call.sequence ? deed_of_absence(theirs.sequence) : deed_of_call(theirs);
}

Sides sides_of(const std::vector<std::optional<Call>>& progress, const Call& call) {
    Sides sides;
    for (std::size_t i = 0; i < progress.size(); ++i) {
        sides.add(static_cast<int>(i), progress[i] ? deed(*progress[i], call) : "does not answer");
    }
    return sides;
}

// Whether most ranks have not made `call`, and live; then those that have made it are to blame.
bool is_call_too_many(const Sides& sides, const std::vector<std::optional<Call>>& progress,
                      const Call& call) {
    const Sides::Side* largest = sides.largest();
    if (largest == nullptr || 2 * largest->ranks.size() <= progress.size()) return false;
    const auto& theirs = progress[static_cast<std::size_t>(largest->ranks.front())];
    const bool all_answer =
        std::all_of(progress.begin(), progress.end(), [](const auto& one) { return one.has_value(); });
    return all_answer && theirs->sequence < call.sequence;
}

// Of `ranks` those that did something else than most of all ranks.
std::vector<int> minority(const Sides& sides, std::size_t world_size, const std::vector<int>& ranks) {
    const Sides::Side* largest = sides.largest();
    if (largest == nullptr || 2 * largest->ranks.size() <= world_size) return ranks;
    std::vector<int> others;
    for (const int rank : sides.others(*largest)) {
        if (std::count(ranks.begin(), ranks.end(), rank) > 0) others.push_back(rank);
    }
    return others;
}

}  // namespace

Verdict judge_lateness(const std::vector<std::optional<Call>>& progress, const Call& call, int rank,
                       const std::vector<int>& awaited, const TimeLimit& limit) {
    const bool concerns_all = !is_point_to_point(call.operation);
    std::vector<int> absent = concerns_all ? std::vector<int>() : late_peers(progress, awaited);
    std::vector<int> elsewhere;
    std::vector<int> ahead;
    for (int other = 0; concerns_all && other < static_cast<int>(progress.size()); ++other) {
        const auto& theirs = progress[static_cast<std::size_t>(other)];
        if (other == rank) continue;
        if (!theirs || theirs->sequence < call.sequence || theirs->operation == Operation::none) {
            absent.push_back(other);
        } else if (theirs->sequence == call.sequence && !is_point_to_point(theirs->operation) &&
                   !(on_wire(*theirs) == on_wire(call))) {
            elsewhere.push_back(other);
        } else if (theirs->sequence > call.sequence) {
            ahead.push_back(other);
        }
    }
    const std::string prefix = "after " + seconds(limit.length) + " (" + std::string(limit.option) + ") ";
    const Sides sides = sides_of(progress, call);
    if (!elsewhere.empty()) {
        for (int other = 0; other < static_cast<int>(progress.size()); ++other) {
            const auto& theirs = progress[static_cast<std::size_t>(other)];
            if (other == rank || (theirs && on_wire(*theirs) == on_wire(call))) elsewhere.push_back(other);
        }
        return {CollectiveErrorCode::mismatch, minority(sides, progress.size(), elsewhere),
                "the ranks disagree: " + sides.text()};
    }
    if (concerns_all && is_call_too_many(sides, progress, call)) {
        return {CollectiveErrorCode::timed_out, sides.others(*sides.largest()), prefix + sides.text()};
    }
    if (!absent.empty()) return {CollectiveErrorCode::timed_out, absent, prefix + list(absent, progress)};
    std::string text = "all ranks have come, but ";
    text += awaited.empty() ? "the operation does not end"
                            : "no data from or to rank " + std::to_string(awaited.front()) + " moves";
    // They finished a call of this number, which need not have been this one.
    if (!ahead.empty()) text += "; " + list(ahead, progress);
    const auto culprits = awaited.empty() ? std::vector<int>{} : std::vector{awaited.front()};
    return {CollectiveErrorCode::timed_out, culprits, prefix + text};
}

std::optional<std::string> notice_of_lateness(const std::vector<std::optional<Call>>& progress,
                                              const Call& call, int rank, const std::vector<int>& awaited,
                                              const TimeLimit& limit) {
    for (std::size_t lower = 0; lower < static_cast<std::size_t>(rank); ++lower) {
        const auto& theirs = progress[lower];
        if (!is_point_to_point(call.operation) && theirs && *theirs == call) return std::nullopt;
    }
    return "ddprun: rank " + std::to_string(rank) + std::string(kWaitsIn) + describe(call) + ": " +
           judge_lateness(progress, call, rank, awaited, limit).text;
}

}  // namespace ddprun
