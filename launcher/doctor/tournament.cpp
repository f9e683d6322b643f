#include "launcher/doctor/tournament.hpp"

#include <algorithm>

namespace ddprun::inline launch {

int rounds_of(int nodes) {
    if (nodes < 2) return 0;
    return nodes % 2 == 0 ? nodes - 1 : nodes;
}

std::optional<int> partner_of(int node, int round, int nodes) {
    const int circle = rounds_of(nodes);
    if (circle == 0) return std::nullopt;
    // One stands in the middle: the last node of an even number, else nobody, whose partner rests.
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

MeetingLimits limits_for(int nodes) {
    const auto round =
        std::clamp(kTournamentTime / std::max(1, rounds_of(nodes)), kLeastRoundTime, kMostRoundTime);
    // What is left is for the answers in between.
    return {.handshake = round * 2 / 5, .transfer = round / 5, .round = round};
}

}  // namespace ddprun::inline launch
