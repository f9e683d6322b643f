#include "launcher/verdict/judge.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "launcher/verdict/rank_state.hpp"
#include "launcher/verdict/sentence.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using States = std::vector<RankState>;
using Ranks = std::set<int>;

template <class Condition>
Ranks ranks_that(const States& states, Condition&& condition) {
    Ranks ranks;
    for (const RankState& state : states) {
        if (condition(state)) ranks.insert(state.rank());
    }
    return ranks;
}

Ranks with_role(const States& states, std::initializer_list<Role> roles) {
    return ranks_that(states, [&](auto& state) {
        return std::find(roles.begin(), roles.end(), state.role) != roles.end();
    });
}

Ranks united(Ranks one, const Ranks& other) {
    one.insert(other.begin(), other.end());
    return one;
}

Ranks without(Ranks ranks, const Ranks& others) {
    std::erase_if(ranks, [&](int rank) { return others.contains(rank); });
    return ranks;
}

bool awaits_one_of(const RankState& state, const Ranks& ranks) {
    return std::any_of(state.awaited.begin(), state.awaited.end(),
                       [&](int rank) { return ranks.contains(rank); });
}

bool gets_on(const RankState& state) {
    constexpr std::uint64_t kLeastPerSecond = 64 * 1024;
    const OwnProgress& own = state.seen->own;
    return own.children || own.read_per_s > kLeastPerSecond || own.written_per_s > kLeastPerSecond;
}

std::string call_group(const RankState& state) {
    return state.seen->call ? state.seen->call->group : std::string();
}

// The ranks that wait for each other alone: whoever waits for one outside of the set is none of it, over and
// over; and then those that none of it waits for.
Ranks ring(const States& states) {
    const auto may_be = [](auto& state) {
        return state.is_alive() && !state.awaited.empty() && (state.is_pair() || !call_group(state).empty());
    };
    Ranks ranks = ranks_that(states, may_be);
    for (std::size_t before = 0; before != ranks.size();) {
        before = ranks.size();
        Ranks awaited;
        for (const RankState& state : states) {
            if (!ranks.contains(state.rank())) continue;
            const bool is_closed = std::all_of(state.awaited.begin(), state.awaited.end(),
                                               [&](int rank) { return ranks.contains(rank); });
            if (is_closed)
                awaited.insert(state.awaited.begin(), state.awaited.end());
            else
                ranks.erase(state.rank());
        }
        if (ranks.size() == before) std::erase_if(ranks, [&](int rank) { return !awaited.contains(rank); });
    }
    // In one group all ranks may wait for their neighbours in one call.
    bool is_paired = true, is_crossed = false;
    for (const RankState& state : states) {
        if (!ranks.contains(state.rank())) continue;
        is_paired = is_paired && state.is_pair();
        is_crossed =
            is_crossed || std::any_of(states.begin(), states.end(), [&](auto& other) {
                return call_group(other) != call_group(state) && awaits_one_of(state, {other.rank()});
            });
    }
    return is_paired || is_crossed ? ranks : Ranks();
}

// Where it is known of every waiter for whom it waits, only those count, and for whom they wait in turn.
Ranks in_question(const States& states, const Ranks& waiters, const Ranks& others) {
    std::map<int, const RankState*> by_rank;
    for (const RankState& state : states) by_rank[state.rank()] = &state;
    Ranks reached;
    std::vector<int> ahead;
    for (const int rank : waiters) {
        const RankState& waiter = *by_rank.at(rank);
        const auto& call = waiter.seen->call;
        const bool is_cut = call && call->awaited.size() >= kMaxAwaited;
        if (waiter.awaited.empty() || is_cut) return others;
        ahead.push_back(rank);
    }
    while (!ahead.empty()) {
        const RankState& state = *by_rank.at(ahead.back());
        ahead.pop_back();
        for (const int rank : state.awaited) {
            if (reached.insert(rank).second) ahead.push_back(rank);
        }
    }
    const Ranks left = ranks_that(
        states, [&](auto& state) { return others.contains(state.rank()) && reached.contains(state.rank()); });
    return left.empty() ? others : left;
}

// Those that wait for another one of them wait, too, unless all do.
Ranks roots(const States& states, const Ranks& others) {
    const Ranks followers = ranks_that(
        states, [&](auto& state) { return others.contains(state.rank()) && awaits_one_of(state, others); });
    return followers.size() == others.size() ? others : without(others, followers);
}

struct Parties {
    Ranks waiters;
    Ranks others;
    Ranks ended;
    Ranks failed;
    Ranks unknown;
};

// The store and a device are waited for because of other ranks, or because of themselves.
Parties parties_of(const States& states) {
    Parties parties{.waiters = with_role(states, {Role::meets}),
                    .others = with_role(states, {Role::computes, Role::blocked, Role::idle}),
                    .ended = with_role(states, {Role::ended}),
                    .failed = with_role(states, {Role::failed}),
                    .unknown = with_role(states, {Role::unknown})};
    // A server listens, too, and has ranks that wait for events.
    const bool is_server = std::all_of(states.begin(), states.end(), [](auto& state) {
        return !state.is_alive() || state.role == Role::listens || state.kind == WaitKind::poll;
    });
    Ranks weak = with_role(states, {Role::asks, Role::syncs});
    if (!is_server || !parties.waiters.empty()) weak.merge(with_role(states, {Role::listens}));
    const bool are_odd =
        parties.others.empty() && parties.ended.empty() && weak.size() < parties.waiters.size();
    (are_odd ? parties.others : parties.waiters).merge(weak);
    return parties;
}

struct HangFinding {
    VerdictKind kind = VerdictKind::none;
    Ranks suspects;
    Ranks waiting;
};

HangFinding hang_of_others(const States& states, const Parties& parties) {
    const bool have_most_ended = parties.ended.size() * 2 > states.size();
    Ranks others = in_question(states, parties.waiters,
                               have_most_ended ? parties.others : united(parties.others, parties.ended));
    const Ranks ended = without(others, parties.others);
    others = without(others, ended);
    const bool some_go_on = std::any_of(states.begin(), states.end(), [&](auto& state) {
        return others.contains(state.rank()) && (state.role == Role::computes || gets_on(state));
    });
    HangFinding found{VerdictKind::hang, {}, parties.waiters};
    if (!ended.empty() && !some_go_on) {
        found.suspects = ended;
    } else if (!others.empty()) {
        found.suspects = roots(states, others);
        found.waiting = united(found.waiting, without(others, found.suspects));
    } else if (have_most_ended) {  // the rest does what it should not
        found.suspects.swap(found.waiting);
    } else {
        found.suspects = parties.failed.empty() ? parties.unknown : parties.failed;
    }
    const bool all_get_on = std::all_of(states.begin(), states.end(), [&](auto& state) {
        return !found.suspects.contains(state.rank()) || (state.is_alive() && gets_on(state));
    });
    if (all_get_on && !found.suspects.empty()) found.kind = VerdictKind::waiting;
    return found;
}

// All of them but the largest camp, where that has more than half.
template <class Key>
std::optional<Ranks> smaller_camps(const States& states, const Ranks& ranks, Key&& key) {
    std::map<decltype(key(states.front())), Ranks> camps;
    for (const RankState& state : states) {
        if (ranks.contains(state.rank())) camps[key(state)].insert(state.rank());
    }
    if (camps.size() < 2) return std::nullopt;
    const auto largest = std::max_element(camps.begin(), camps.end(), [](const auto& one, const auto& other) {
        return one.second.size() < other.second.size();
    });
    const bool is_most = largest->second.size() * 2 > ranks.size();
    return is_most ? without(ranks, largest->second) : Ranks();
}

auto call_site(const RankState& state) {
    return state.place == nullptr ? std::tuple(std::string(), std::string(), 0)
                                  : std::tuple(state.place->file, state.place->function, state.place->line);
}

HangFinding difference_of_calls(const States& states, const Ranks& waiters) {
    const auto found = [&](VerdictKind kind, const Ranks& suspects) {
        return HangFinding{kind, suspects, without(waiters, suspects)};
    };
    const Ranks meeting =
        ranks_that(states, [](auto& state) { return state.role == Role::meets && !state.operation.empty(); });
    const bool all_pairs = std::all_of(states.begin(), states.end(), [&](auto& state) {
        return !meeting.contains(state.rank()) || state.is_pair();
    });
    if (!all_pairs) {
        if (const auto camp = smaller_camps(states, meeting, [](auto& state) { return state.operation; }))
            return found(VerdictKind::mismatch, *camp);
        if (const auto camp = smaller_camps(states, meeting, call_site))
            return found(VerdictKind::mismatch, *camp);
    }
    const Ranks numbered = ranks_that(states, [&](auto& state) {
        return waiters.contains(state.rank()) && state.seen->call && state.seen->call->number != 0;
    });
    const auto groups = smaller_camps(states, numbered, call_group);
    const auto behind = smaller_camps(states, numbered, [](auto& state) { return state.seen->call->number; });
    return found(VerdictKind::hang, !groups && behind && numbered == waiters ? *behind : Ranks());
}

HangFinding finding_of(const States& states) {
    if (const Ranks ranks = ring(states); !ranks.empty()) {
        const Ranks waiting = with_role(states, {Role::meets, Role::asks, Role::syncs});
        return {VerdictKind::deadlock, ranks, without(waiting, ranks)};
    }
    const Parties parties = parties_of(states);
    const auto alive = static_cast<std::size_t>(
        std::count_if(states.begin(), states.end(), [](auto& state) { return state.is_alive(); }));
    if (!parties.waiters.empty() && parties.waiters.size() < states.size())
        return hang_of_others(states, parties);
    if (!parties.waiters.empty()) return difference_of_calls(states, parties.waiters);
    const Ranks still = ranks_that(states, [](auto& state) {
        return (state.role == Role::idle || state.role == Role::blocked) && !gets_on(state);
    });
    const Ranks computing = with_role(states, {Role::computes});
    if (computing.size() * 2 > alive && !still.empty())
        return {VerdictKind::hang, roots(states, still), without(still, roots(states, still))};
    const Ranks blocked = ranks_that(
        states, [&](auto& state) { return state.role == Role::blocked && still.contains(state.rank()); });
    if (computing.empty() && !blocked.empty()) return {VerdictKind::hang, blocked, {}};
    return {};
}

}  // namespace

HangVerdict judge(const std::vector<Observation>& observations, const JobMoment& moment) {
    const States states = rank_states(observations);
    const HangFinding found = finding_of(states);
    HangVerdict verdict{.kind = found.kind};
    verdict.suspects.assign(found.suspects.begin(), found.suspects.end());
    verdict.waiting.assign(found.waiting.begin(), found.waiting.end());
    verdict.sentence = sentence_of(states, verdict);
    if (found.kind != VerdictKind::none) verdict.evidence = evidence_of(states, verdict, moment.quiet);
    if (moment.limit && moment.quiet < *moment.limit) verdict.kind = VerdictKind::none;
    return verdict;
}

}  // namespace launch
}  // namespace ddprun
