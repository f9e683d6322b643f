// The tournament says who measures with whom, when every two nodes are to measure once: in rounds of pairs, each node in one
// pair at most. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace ddprun::inline launch {

// Among so many nodes each one can measure with each other one.
inline constexpr int kMaxTournamentNodes = 1024;
// All rounds together take about that long for up to 76 nodes; more nodes get the least time of a round.
inline constexpr std::chrono::milliseconds kTournamentTime{7'500};
inline constexpr std::chrono::milliseconds kLeastRoundTime{100};
inline constexpr std::chrono::milliseconds kMostRoundTime{1'000};

// One less than there are nodes, or as many where that is an odd number; none for a single node.
inline int rounds_of(int nodes) {
    if (nodes < 2) return 0;
    return nodes % 2 == 0 ? nodes - 1 : nodes;
}

// The partner of `node` in that round, by the circle method; nothing: the node rests.
inline std::optional<int> partner_of(int node, int round, int nodes) {
    const int circle = rounds_of(nodes);
    if (circle == 0) return std::nullopt;
    // The middle of the circle is the last node of an even number; of an odd number it is nobody, and its partner rests.
    const int middle = circle;
    int partner = middle;
    if (node == middle) {
        partner = round;
    } else {
        const int opposite = (((2 * round - node) % circle) + circle) % circle;
        if (opposite != node) partner = opposite;
    }
    return partner < nodes ? std::optional(partner) : std::nullopt;
}

inline std::chrono::milliseconds round_time(int nodes) {
    return std::clamp(kTournamentTime / std::max(1, rounds_of(nodes)), kLeastRoundTime, kMostRoundTime);
}

}  // namespace ddprun::inline launch
