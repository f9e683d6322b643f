#include "launcher/verdict/doings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/verdict/rank_state.hpp"
#include "launcher/verdict/sentence.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace launch {
namespace {

bool is_told(const RankState& state) {
    return state.is_alive() && state.role != Role::unknown && state.kind != WaitKind::starting;
}

RanksDoing::Manner manner_of(const RankState& state) {
    constexpr Role kWaiting[] = {Role::meets, Role::asks, Role::syncs, Role::listens};
    if (std::find(std::begin(kWaiting), std::end(kWaiting), state.role) != std::end(kWaiting))
        return RanksDoing::Manner::waited;
    const bool stands = state.role == Role::blocked || state.role == Role::idle;
    const bool has_line = state.place != nullptr && !state.place->native && state.place->line != 0;
    return stands && has_line ? RanksDoing::Manner::stood : RanksDoing::Manner::other;
}

// Each connection has addresses of its own; which rank is at its other end tells more.
std::string words_of_state(const RankState& state) {
    const bool is_pair = state.role == Role::meets && state.operation.empty() && !state.awaited.empty();
    if (!is_pair || state.kind == WaitKind::collective) return past_text(doing_text(state));
    const std::string place = state.place == nullptr ? std::string() : line_text(*state.place);
    return fmt::format(
        "waited for {}{}", named_ranks(state.awaited),
        place.empty() ? "" : fmt::format(" in {} ({})", harmless_line(state.place->function), place));
}

}  // namespace

std::vector<RanksDoing> doings_of(const std::vector<Observation>& observations,
                                  const std::set<int>& failing) {
    std::vector<RanksDoing> all;
    for (const RankState& state : rank_states(observations)) {
        const auto manner = manner_of(state);
        const bool is_failing = failing.contains(state.rank()) && manner != RanksDoing::Manner::waited;
        if (!is_told(state) || is_failing) continue;
        const std::string doing = harmless_line(words_of_state(state), kMaxDoingText);
        add_doings(all, {{{{state.rank(), state.rank()}}, manner, cut_text(doing, kMaxDoingText)}});
    }
    return all;
}

}  // namespace launch
}  // namespace ddprun
