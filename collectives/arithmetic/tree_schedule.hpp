// Schedules with few steps, for messages so small that latency is everything. Pure.
#pragma once

#include <vector>

namespace ddprun {

// Dissemination: in round j a rank sends all blocks it holds so far (at most what is still missing) to rank -
// 2^j and receives as many from rank + 2^j; after ceil(log2 n) rounds everybody holds the blocks of all
// ranks. Blocks are held in the order rank, rank + 1, … (mod n). With empty blocks it is a barrier.
//
// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", IJPP 17(1), 1988,
// doi 10.1007/BF01379320; as an all-gather: J. Bruck et al., IEEE TPDS 8(11), 1997, doi 10.1109/71.642949.
struct DisseminationRound {
    int to = 0;
    int from = 0;
    int held = 0;    // blocks held before the round; received ones are put behind them
    int blocks = 0;  // sent, and also received
};

int dissemination_rounds(int world_size) noexcept;
DisseminationRound dissemination_round(int rank, int world_size, int round) noexcept;

// A rank's place in the binomial tree over all ranks below `root`: it receives from the parent, then sends to
// the children in this order (largest subtree first). The root's parent is -1.
struct TreePlace {
    int parent = -1;
    std::vector<int> children;
};

TreePlace binomial_tree(int rank, int world_size, int root);

}  // namespace ddprun
