// Who meets whom when every two nodes are to meet once: rounds of pairs, in which each node is in one pair at most. Pure.
#pragma once

#include <chrono>
#include <optional>

namespace ddprun::inline launch {

// Among so many nodes each one meets each other one.
inline constexpr int kMaxTournamentNodes = 1024;
// All rounds together take no longer, up to 76 nodes; of more each round has its least time.
inline constexpr std::chrono::milliseconds kTournamentTime{7'500};
inline constexpr std::chrono::milliseconds kLeastRoundTime{100};
inline constexpr std::chrono::milliseconds kMostRoundTime{1'000};

// One less than there are nodes, or as many where that is an odd number; none for a single node.
int rounds_of(int nodes);

// Whom `node` meets in that round, by the circle method; nothing: nobody.
std::optional<int> partner_of(int node, int round, int nodes);

// What a meeting may take. A dead pair ends its round by `handshake`, a slow one by `round`.
struct MeetingLimits {
    std::chrono::milliseconds handshake;  // from the beginning of the round until the other side has answered
    std::chrono::milliseconds transfer;   // of bytes in one direction
    std::chrono::milliseconds round;
};
MeetingLimits limits_for(int nodes);

}  // namespace ddprun::inline launch
