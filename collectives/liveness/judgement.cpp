#include "collectives/liveness/judgement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "collectives/call/call.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Ranks by what they did. A predicate is the rest of a sentence that begins with one rank's name: `called
// barrier() as call 7`, `has made 6 calls and left`.
class Sides {
  public:
    struct Side {
        std::string predicate;
        std::vector<int> ranks;
    };

    void add(int rank, const std::string& predicate) {
        const auto found = std::find_if(sides_.begin(), sides_.end(),
                                        [&](const Side& side) { return side.predicate == predicate; });
        if (found != sides_.end()) {
            found->ranks.push_back(rank);
        } else {
            sides_.push_back({predicate, {rank}});
        }
    }

    std::size_t count() const noexcept { return sides_.size(); }
    // The side with more ranks than each other; null where there is none.
    const Side* largest() const {
        const Side* largest = nullptr;
        bool alone = false;
        for (const Side& side : sides_) {
            const std::size_t most = largest != nullptr ? largest->ranks.size() : 0;
            if (side.ranks.size() < most) continue;
            alone = side.ranks.size() > most;
            largest = &side;
        }
        return alone ? largest : nullptr;
    }

    // All but those of `side`, ascending.
    std::vector<int> others(const Side& side) const {
        std::vector<int> ranks;
        for (const Side& other : sides_) {
            if (&other != &side) ranks.insert(ranks.end(), other.ranks.begin(), other.ranks.end());
        }
        std::sort(ranks.begin(), ranks.end());
        return ranks;
    }

    // All sides, the smallest first: `rank 1 called …, ranks 0, 2 have made 6 calls and left`.
    std::string text() const {
        std::vector<Side> sorted = sides_;
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const Side& a, const Side& b) { return a.ranks.size() < b.ranks.size(); });
        std::string text;
        for (const Side& side : sorted) text += (text.empty() ? "" : ", ") + sentence(side);
        return text;
    }

  private:
    static std::string sentence(const Side& side) {
        if (side.ranks.size() == 1) return fmt::format("rank {} {}", side.ranks.front(), side.predicate);
        constexpr std::string_view kOne = "has ";
        const bool has = side.predicate.starts_with(kOne);
        return fmt::format("ranks {} {}{}", list_of_ranks(side.ranks), has ? "have " : "",
                           side.predicate.substr(has ? kOne.size() : 0));
    }

    std::vector<Side> sides_;
};

std::string predicate_of_call(const Call& call) { return "called " + describe(call); }

std::string predicate_of_absence(std::uint64_t calls_made) {
    if (calls_made == 0) return "has called nothing yet";
    return fmt::format("has made {} call{}", calls_made, calls_made == 1 ? "" : "s");
}

constexpr std::size_t kMaxRanksListed = 8;

std::string seconds(std::chrono::milliseconds length) {
    const auto [whole, rest] = std::lldiv(length.count(), 1000);
    return rest == 0 ? fmt::format("{} s", whole) : fmt::format("{}.{:03} s", whole, rest);
}

std::string whereabouts(int rank, const std::optional<Call>& call) {
    if (!call) return accuse(rank, Charge::does_not_answer);
    if (call->operation == Operation::none) return accuse(rank, Charge::called_nothing);
    return accuse(rank, Charge::is_elsewhere) + ' ' + describe(*call);
}

std::string list(const std::vector<int>& ranks, const std::vector<std::optional<Call>>& progress) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size() && i < kMaxRanksListed; ++i) {
        if (i > 0) text += ", ";
        text += whereabouts(ranks[i], progress[static_cast<std::size_t>(ranks[i])]);
    }
    if (ranks.size() > kMaxRanksListed) text += fmt::format(", and {} more", ranks.size() - kMaxRanksListed);
    return text;
}

// Returns those of the awaited ranks that are in no call with messages to single ranks, if there are any; the
// others may wait themselves.
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

// Says what a rank has done, towards `call`.
std::string predicate(const Call& theirs, const Call& call) {
    if (is_point_to_point(theirs.operation)) return "is at " + describe(theirs);
    return theirs.sequence < call.sequence ? predicate_of_absence(theirs.sequence)
                                           : predicate_of_call(theirs);
}

Sides sides_of(const std::vector<std::optional<Call>>& progress, const Call& call) {
    Sides sides;
    for (std::size_t i = 0; i < progress.size(); ++i) {
        sides.add(static_cast<int>(i), progress[i] ? predicate(*progress[i], call) : "does not answer");
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

// Returns those of `ranks` that did something else than most of all ranks.
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

std::string predicate_of_leaving(std::uint64_t calls_made) {
    return (calls_made == 0 ? "has called nothing" : predicate_of_absence(calls_made)) + " and left";
}

Verdict mismatch_verdict(int rank, const Call& call, int peer, const Call& theirs) {
    return {CollectiveErrorCode::mismatch,
            {rank, peer},
            fmt::format("the ranks disagree: rank {} called {}, rank {} called {}", rank, describe(call),
                        peer, describe(theirs))};
}

std::optional<Verdict> judge_disagreement(const std::vector<Stand>& stands, std::uint64_t sequence,
                                          bool at_once) {
    Sides all;
    Sides known;
    std::vector<int> callers;
    std::vector<int> leavers;
    std::size_t open = 0;
    std::string first_predicate;
    bool calls_differ = false;
    for (std::size_t i = 0; i < stands.size(); ++i) {
        const Stand& stand = stands[i];
        const int rank = static_cast<int>(i);
        std::string predicate;
        if (stand.left_after && *stand.left_after < sequence) {
            predicate = predicate_of_leaving(*stand.left_after);
            leavers.push_back(rank);
        } else if (stand.call.operation != Operation::none) {
            predicate = predicate_of_call(stand.call);
            calls_differ = calls_differ || (!callers.empty() && predicate != first_predicate);
            if (callers.empty()) first_predicate = predicate;
            callers.push_back(rank);
        } else {
            // A rank that has left after that call made it, but cannot be asked any more which one that was.
            if (stand.left_after) continue;
            ++open;
            all.add(rank, stand.last ? predicate_of_absence(stand.last->sequence) : "does not answer");
            continue;
        }
        all.add(rank, predicate);
        known.add(rank, predicate);
    }
    if (known.count() < 2 || callers.empty()) return std::nullopt;
    const Sides::Side* largest = known.largest();
    const bool is_majority = largest != nullptr && 2 * largest->ranks.size() > stands.size();
    if (!is_majority && open > 0 && !at_once) return std::nullopt;
    const bool most_left =
        largest != nullptr && std::count(leavers.begin(), leavers.end(), largest->ranks.front()) > 0;
    if (!calls_differ && !most_left) return Verdict{CollectiveErrorCode::peer_left, leavers, all.text()};
    return Verdict{CollectiveErrorCode::mismatch, largest != nullptr ? known.others(*largest) : callers,
                   "the ranks disagree: " + all.text()};
}

Verdict blame_for_deadline(const std::vector<std::optional<Call>>& progress, const Call& call, int rank,
                           const std::vector<int>& awaited, const NamedTimeout& timeout) {
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
                   *theirs != call) {
            elsewhere.push_back(other);
        } else if (theirs->sequence > call.sequence) {
            ahead.push_back(other);
        }
    }
    const std::string prefix = fmt::format("after {} ({}) ", seconds(timeout.length), timeout.option);
    const Sides sides = sides_of(progress, call);
    if (!elsewhere.empty()) {
        for (int other = 0; other < static_cast<int>(progress.size()); ++other) {
            const auto& theirs = progress[static_cast<std::size_t>(other)];
            if (other == rank || (theirs && *theirs == call)) elsewhere.push_back(other);
        }
        return {CollectiveErrorCode::mismatch, minority(sides, progress.size(), elsewhere),
                "the ranks disagree: " + sides.text()};
    }
    if (concerns_all && is_call_too_many(sides, progress, call)) {
        return {CollectiveErrorCode::timed_out, sides.others(*sides.largest()), prefix + sides.text()};
    }
    if (!absent.empty()) return {CollectiveErrorCode::timed_out, absent, prefix + list(absent, progress)};
    // They finished a call of this number, which need not have been this one.
    const std::string others = ahead.empty() ? "" : "; " + list(ahead, progress);
    const std::string text = prefix + "all ranks have come, but ";
    if (awaited.empty())
        return {CollectiveErrorCode::timed_out, {}, text + "the operation does not end" + others};
    return {CollectiveErrorCode::timed_out,
            {awaited.front()},
            fmt::format("{}no data from or to rank {} moves{}", text, awaited.front(), others)};
}

std::optional<std::string> notice_of_wait(const std::vector<std::optional<Call>>& progress, const Call& call,
                                          int rank, const std::vector<int>& awaited,
                                          const NamedTimeout& timeout) {
    for (std::size_t lower = 0; lower < static_cast<std::size_t>(rank); ++lower) {
        const auto& theirs = progress[lower];
        if (!is_point_to_point(call.operation) && theirs && *theirs == call) return std::nullopt;
    }
    return fmt::format("ddprun: rank {}{}{}: {}", rank, kWaitsIn, describe(call),
                       blame_for_deadline(progress, call, rank, awaited, timeout).text);
}

}  // namespace detail
}  // namespace ddprun
