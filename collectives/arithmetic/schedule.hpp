// RingSchedule, DisseminationRound, TreePlace: which rank sends what to which rank at which step. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun {
inline namespace detail {

// Range: a part of a buffer, in elements.
struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;

    bool operator==(const Range&) const = default;
};

// Returns part `index` of `count` elements that are cut into `parts` ranges. The ranges' sizes differ by one
// at most, larger ones first.
Range chunk_range(std::size_t count, int parts, int index);

// RingSchedule: what one rank of a ring sends and receives in each step.
//
// Every rank sends to rank + 1 and receives from rank - 1 at the same time. A buffer is one chunk per rank.
// In step s a rank sends chunk (first - s) mod n and receives chunk (first - s - 1) mod n. A rank sends in
// the next step what it received in this one, so each chunk travels once round the ring.
//
// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 69(2), 2009, doi 10.1016/j.jpdc.2008.09.002. Every rank sends 2(n-1)/n of the buffer in an all-reduce, the
// least possible.
class RingSchedule {
  public:
    // Makes n-1 steps that reduce, after which rank r holds chunk r+1 complete, then n-1 steps that hand the
    // results round.
    static RingSchedule all_reduce(int rank, int world_size);
    // Makes n-1 steps that reduce; rank r ends with chunk r.
    static RingSchedule reduce_scatter(int rank, int world_size);
    // Makes n-1 steps that hand round; rank r begins with chunk r.
    static RingSchedule all_gather(int rank, int world_size);

    int steps() const noexcept { return steps_; }
    int sends(int step) const noexcept;
    int receives(int step) const noexcept { return sends(step + 1); }
    // Returns true if the chunk received in this step is to be combined with this rank's own values.
    bool reduces(int step) const noexcept { return step < reducing_steps_; }
    // Returns true if that combination is the last, so that the chunk is then the result over all ranks.
    bool completes(int step) const noexcept { return step == reducing_steps_ - 1; }

  private:
    RingSchedule(int world_size, int first, int steps, int reducing_steps)
        : world_size_(world_size), first_(first), steps_(steps), reducing_steps_(reducing_steps) {}

    int world_size_;
    int first_;
    int steps_;
    int reducing_steps_;
};

// Returns the number of steps of an exchange, in which every two ranks meet exactly once.
//
// In a step the ranks form pairs, and the two of a pair swap blocks, both directions at once. With 2^k ranks
// the partner is rank xor step; else (step - rank) mod n, where a rank that is its own partner rests. A swap
// in place needs room for one block only, unlike sending round a ring.
//
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
// MPICH", IJHPCA 19(1), 2005, doi 10.1177/1094342005051521.
int exchange_steps(int world_size) noexcept;
// Returns the partner of a rank in a step; the rank itself when it rests.
int exchange_partner(int rank, int world_size, int step) noexcept;

// DisseminationRound: what one rank sends and receives in one round of dissemination.
//
// In round j a rank sends all blocks it holds so far (at most what is still missing) to rank - 2^j and
// receives as many from rank + 2^j. After ceil(log2 n) rounds every rank holds the blocks of all ranks.
// Blocks are held in the order rank, rank + 1, … (mod n). With empty blocks dissemination is a barrier.
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

// TreePlace: a rank's place in the binomial tree over all ranks below `root`. A rank receives from the
// parent, then sends to the children in this order (largest subtree first). The root's parent is -1.
struct TreePlace {
    int parent = -1;
    std::vector<int> children;
};

TreePlace binomial_tree(int rank, int world_size, int root);

}  // namespace detail
}  // namespace ddprun
