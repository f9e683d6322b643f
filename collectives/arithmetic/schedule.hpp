// Schedules: who sends what to whom at which step. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun {
inline namespace detail {

// A part of a buffer, in elements.
struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;

    bool operator==(const Range&) const = default;
};

// Part `index` of `count` elements cut into `parts` ranges whose sizes differ by one at most, larger ones
// first.
Range chunk_range(std::size_t count, int parts, int index);

// The ranks form a ring; everybody sends to rank + 1 and receives from rank - 1 at the same time. A buffer is
// one chunk per rank. In step s a rank sends chunk (first - s) mod n and receives chunk (first - s - 1) mod
// n: what it receives in one step it sends in the next, so each chunk travels once round the ring.
//
// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 69(2), 2009, doi 10.1016/j.jpdc.2008.09.002. Every rank sends 2(n-1)/n of the buffer in an all-reduce, the
// least possible.
class RingSchedule {
  public:
    // n-1 steps that reduce, after which rank r holds chunk r+1 complete, then n-1 steps that hand the
    // results round.
    static RingSchedule all_reduce(int rank, int world_size);
    // n-1 steps that reduce; rank r ends with chunk r.
    static RingSchedule reduce_scatter(int rank, int world_size);
    // n-1 steps that hand round; rank r begins with chunk r.
    static RingSchedule all_gather(int rank, int world_size);

    int steps() const noexcept { return steps_; }
    int sends(int step) const noexcept;
    int receives(int step) const noexcept { return sends(step + 1); }
    // True if the chunk received in this step is to be combined with this rank's own values.
    bool reduces(int step) const noexcept { return step < reducing_steps_; }
    // True if that combination is the last, so that the chunk is then the result over all ranks.
    bool completes(int step) const noexcept { return step == reducing_steps_ - 1; }

  private:
    RingSchedule(int world_size, int first, int steps, int reducing_steps)
        : world_size_(world_size), first_(first), steps_(steps), reducing_steps_(reducing_steps) {}

    int world_size_;
    int first_;
    int steps_;
    int reducing_steps_;
};

// Exchange: every two ranks meet exactly once.
// In a step each rank has one partner, whose partner it is: the two swap blocks, both directions at once.
// With 2^k ranks the partner is rank xor step; else (step - rank) mod n, where a rank that is its own partner
// rests. Swapping, unlike sending round a ring, needs room for one block only when it is done in place.
//
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
// MPICH", IJHPCA 19(1), 2005, doi 10.1177/1094342005051521.
int exchange_steps(int world_size) noexcept;
// The rank itself when it rests.
int exchange_partner(int rank, int world_size, int step) noexcept;

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

}  // namespace detail
}  // namespace ddprun
