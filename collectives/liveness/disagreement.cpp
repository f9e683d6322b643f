#include "collectives/liveness/disagreement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "collectives/call/rank_list.hpp"

namespace ddprun::inline detail {
namespace {

std::string sentence(const Sides::Side& side) {
    if (side.ranks.size() == 1) return fmt::format("rank {} {}", side.ranks.front(), side.deed);
    constexpr std::string_view kOne = "has ";
    const bool has = side.deed.starts_with(kOne);
    return fmt::format("ranks {} {}{}", list_of_ranks(side.ranks), has ? "have " : "",
                       side.deed.substr(has ? kOne.size() : 0));
}

}  // namespace

void Sides::add(int rank, const std::string& deed) {
    const auto found =
        std::find_if(sides_.begin(), sides_.end(), [&](const Side& side) { return side.deed == deed; });
    if (found != sides_.end()) {
        found->ranks.push_back(rank);
    } else {
        sides_.push_back({deed, {rank}});
    }
}

const Sides::Side* Sides::largest() const {
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

std::vector<int> Sides::others(const Side& side) const {
    std::vector<int> ranks;
    for (const Side& other : sides_) {
        if (&other != &side) ranks.insert(ranks.end(), other.ranks.begin(), other.ranks.end());
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

std::string Sides::text() const {
    std::vector<Side> sorted = sides_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Side& a, const Side& b) { return a.ranks.size() < b.ranks.size(); });
    std::string text;
    for (const Side& side : sorted) text += (text.empty() ? "" : ", ") + sentence(side);
    return text;
}

std::string deed_of_call(const Call& call) { return "called " + describe(call); }

std::string deed_of_absence(std::uint64_t calls_made) {
    if (calls_made == 0) return "has called nothing yet";
    return fmt::format("has made {} call{}", calls_made, calls_made == 1 ? "" : "s");
}

std::string deed_of_leaving(std::uint64_t calls_made) {
    return (calls_made == 0 ? "has called nothing" : deed_of_absence(calls_made)) + " and left";
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
    std::string first_deed;
    bool calls_differ = false;
    for (std::size_t i = 0; i < stands.size(); ++i) {
        const Stand& stand = stands[i];
        const int rank = static_cast<int>(i);
        std::string deed;
        if (stand.left_after && *stand.left_after < sequence) {
            deed = deed_of_leaving(*stand.left_after);
            leavers.push_back(rank);
        } else if (stand.call.operation != Operation::none) {
            deed = deed_of_call(stand.call);
            calls_differ = calls_differ || (!callers.empty() && deed != first_deed);
            if (callers.empty()) first_deed = deed;
            callers.push_back(rank);
        } else {
            // Who has left after that call made it, but cannot be asked any more which one that was.
            if (stand.left_after) continue;
            ++open;
            all.add(rank, stand.last ? deed_of_absence(stand.last->sequence) : "does not answer");
            continue;
        }
        all.add(rank, deed);
        known.add(rank, deed);
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

}  // namespace ddprun::inline detail
