// ShmPipeline: collectives of large buffers through the staged rounds of a ShmChannel.
//
// A round takes as much of the buffers as a stage holds. Whatever others need of a rank's input it copies
// into its stage; each rank then reduces its own slice from all ranks' stages in the order 0 … n-1, into its
// own stage, and copies the other slices from there. So a rank reads and writes each byte about twice,
// whatever n, and every element is reduced by one rank in one order: results are bitwise equal on all ranks
// and from run to run. The next round is staged before the results of this one are awaited.
//
// The channel must have an open, not yet announced call. Counts are elements, not zero; buffers as in
// Communicator.
#pragma once

#include "collectives/shm_channel.hpp"

namespace ddprun {

class ShmPipeline {
  public:
    ShmPipeline(ShmChannel& channel, DataType type, ReduceOp op);

    void all_reduce(const std::byte* in, std::byte* out, std::size_t count);
    void reduce_scatter(const std::byte* in, std::byte* out, std::size_t count);
    void all_gather(const std::byte* in, std::byte* out, std::size_t count);
    void broadcast(std::byte* data, std::size_t count, int root);

  private:
    // Bytes of a round, and of a rank's slice of it.
    struct Piece {
        std::size_t begin = 0;
        std::size_t size = 0;
    };
    struct Plan {
        std::size_t total;      // bytes
        std::size_t per_round;  // a multiple of the line
        std::uint64_t rounds;

        Piece round(std::uint64_t i) const;
    };

    static Plan plan(std::size_t total, std::size_t most_per_round);
    Piece slice(std::size_t size, int rank) const;
    int other(int i) const { return (channel_.rank() + i) % channel_.world_size(); }
    // Runs stage(i), then consume(i), for every round, staging one ahead.
    template <class Stage, class Consume>
    void run(std::uint64_t rounds, Stage stage, Consume consume);
    // Reduces `size` bytes at `place` of all stages and this rank's own values into this rank's stage, and
    // copies the result to `out`.
    void reduce_slice(std::uint64_t round, std::size_t place, std::size_t size, const std::byte* own,
                      std::byte* out);

    ShmChannel& channel_;
    DataType type_;
    ReduceOp op_;
};

}  // namespace ddprun
