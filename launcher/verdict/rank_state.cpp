#include "launcher/verdict/rank_state.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "launcher/verdict/place.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using RankOfProcess = std::map<std::pair<int, pid_t>, int>;  // by node and pid

Role role_of(const RankState& state) {
    switch (state.kind) {
        case WaitKind::running: return Role::computes;
        case WaitKind::collective: return Role::meets;
        case WaitKind::store: return is_joining(state.seen->frames) ? Role::meets : Role::asks;
        case WaitKind::device: return Role::syncs;
        case WaitKind::socket:
            if (state.seen->wait->is_listening) return Role::listens;
            [[fallthrough]];
        case WaitKind::poll: return state.awaited.empty() ? Role::idle : Role::meets;
        case WaitKind::output:
        case WaitKind::file_lock:
        case WaitKind::file:
        case WaitKind::stopped: return Role::blocked;
        case WaitKind::lock: return state.seen->wait->thread != 0 ? Role::blocked : Role::idle;
        case WaitKind::sleep:
        case WaitKind::pipe:
        case WaitKind::child:
        case WaitKind::traced:
        case WaitKind::starting: return Role::idle;
        case WaitKind::ended: break;
    }
    return Role::ended;
}

bool is_in_call(const Observation& seen) { return seen.call && seen.call->for_ms; }

bool may_await(WaitKind kind) {
    constexpr WaitKind kKinds[] = {WaitKind::collective, WaitKind::socket,    WaitKind::poll, WaitKind::pipe,
                                   WaitKind::lock,       WaitKind::file_lock, WaitKind::child};
    return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

// What a rank tells of its call comes before what its sockets tell.
std::vector<int> awaited_by(const Observation& seen, WaitKind kind, const std::set<int>& ranks,
                            const RankOfProcess& owners) {
    if (!may_await(kind)) return {};
    std::set<int> awaited;
    if (is_in_call(seen)) awaited.insert(seen.call->awaited.begin(), seen.call->awaited.end());
    if (awaited.empty()) awaited.insert(seen.peers.begin(), seen.peers.end());
    const auto owner = owners.find({seen.node, seen.wait->process});
    if (awaited.empty() && owner != owners.end()) awaited.insert(owner->second);
    awaited.erase(seen.rank);
    std::vector<int> known;
    std::set_intersection(awaited.begin(), awaited.end(), ranks.begin(), ranks.end(),
                          std::back_inserter(known));
    return known;
}

}  // namespace

bool RankState::is_pair() const {
    return is_point_to_point(operation) || (operation.empty() && kind != WaitKind::collective);
}

std::vector<RankState> rank_states(const std::vector<Observation>& observations) {
    std::map<int, const Observation*> by_rank;
    for (const Observation& one : observations) by_rank.emplace(one.rank, &one);
    std::set<int> ranks;
    RankOfProcess owners;
    for (const auto& [rank, one] : by_rank) {
        ranks.insert(rank);
        if (one->pid != 0) owners.emplace(std::pair{one->node, one->pid}, rank);
    }
    std::vector<RankState> states;
    for (const auto& [rank, one] : by_rank) {
        RankState state{.seen = one};
        state.place = place_of(one->frames);
        if (one->exit_code) {
            state.kind = WaitKind::ended;
            state.role = *one->exit_code == 0 ? Role::ended : Role::failed;
        } else if (one->wait) {
            // A rank says itself that it is in a call of ours.
            const std::vector<Frame> own_call = {{.function = "ddprun::", .file = {}, .native = true}};
            state.kind = refined_by_stack(*one->wait, is_in_call(*one) ? own_call : one->frames).kind;
            state.awaited = awaited_by(*one, state.kind, ranks, owners);
            state.role = role_of(state);
            if (state.role == Role::meets) state.operation = operation_of(one->frames);
            if (state.kind == WaitKind::collective && is_in_call(*one) && !one->call->operation.empty())
                state.operation = one->call->operation;
        }
        states.push_back(std::move(state));
    }
    return states;
}

}  // namespace launch
}  // namespace ddprun
