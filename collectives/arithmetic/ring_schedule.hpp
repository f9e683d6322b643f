// Ring schedules: who sends which chunk at which step. Pure.
//
// The ranks form a ring; everybody sends to rank + 1 and receives from rank - 1 at the same time. A buffer is
// one chunk per rank. In step s a rank sends chunk (first - s) mod n and receives chunk (first - s - 1) mod
// n: what it receives in one step it sends in the next, so each chunk travels once round the ring.
//
// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 69(2), 2009, doi 10.1016/j.jpdc.2008.09.002. Every rank sends 2(n-1)/n of the buffer in an all-reduce, the
// least possible.
#pragma once

#include <cstddef>

namespace ddprun {

// A part of a buffer, in elements.
struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;

    bool operator==(const Range&) const = default;
};

// Part `index` of `count` elements cut into `parts` ranges whose sizes differ by one at most, larger ones
// first.
Range chunk_range(std::size_t count, int parts, int index);

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

}  // namespace ddprun
