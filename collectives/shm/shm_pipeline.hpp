// ShmPipeline: collectives of large buffers through the staged rounds of a ShmChannel.
//
// A round takes as much of the buffers as a stage holds. Whatever others need of a rank's input it copies
// into its stage, two rounds ahead of those who read it. To reduce, each rank takes its own slice from all
// ranks' stages in the order 0 … n-1; every element is reduced by one rank in one order, so results are
// bitwise equal on all ranks and from run to run, as long as the ranks share a host.
//
// all_reduce and reduce write the result back to where the slices were read from, in the others' stages,
// where each rank finds all it needs in its own stage. So each cache line goes just to a peer and back, and
// the peer writes it while its cache holds it: that takes about half the time of a result in lines that
// others have read, which must be taken from their caches first.
//
// The channel must have an open, not yet announced call; or one that is announced with a note, and that all
// others have announced.
#pragma once

#include "collectives/shm/shm_channel.hpp"
#include "collectives/shm/shm_reduce.hpp"

namespace ddprun::inline detail {

class ShmPipeline {
  public:
    ShmPipeline(ShmChannel& channel, DataType type, ReduceOp op, bool announced = false);

    // Any operation of all ranks but a barrier, of more than no elements.
    void run(const Task& task);

  private:
    static constexpr int kEverybody = -1;

    struct Plan {
        std::size_t total;      // bytes
        std::size_t per_round;  // a multiple of the line
        std::uint64_t rounds;

        ShmPiece round(std::uint64_t i) const;
    };

    static Plan plan(std::size_t total, std::size_t most_per_round);
    // The part of a stage for each rank, where a round has as much of every part.
    std::size_t share() const;
    int other(int i) const { return (channel_.rank() + i) % channel_.world_size(); }
    std::byte* own_stage(std::uint64_t round) const { return channel_.stage(channel_.rank(), round); }
    // Calls stage(i), two rounds ahead, then use(i), for every round i of the plan. `stage` fills this rank's
    // stage; `use` reads the others'.
    template <class Stage, class Use>
    void run_rounds(const Plan& plan, Stage stage, Use use);
    template <class Stage>
    void stage_round(std::uint64_t i, Stage stage);
    // The first two rounds, and the announcement.
    template <class Stage>
    void begin(const Plan& plan, Stage stage);
    void announce();
    // Copies the other ranks' pieces of `in`, which has a part for each rank, into this rank's stage, each at its share.
    void stage_parts(std::uint64_t round, const std::byte* in, std::size_t part, const ShmPiece& piece);
    // The first round is staged before the call is announced, and needs no word of its own; but not by a rank
    // whose note says that it could have done without.
    void await_staged(int peer, std::uint64_t i) {
        if (i > 0 || channel_.note(peer).in != 0) channel_.await_staged(peer, channel_.first_round() + i);
    }
    // Counts are elements, not zero, in all that follows. The results are for `root`, or for all.
    void reduce_in_stages(const std::byte* in, std::byte* out, std::size_t count, int root);
    // All parts are for `root`, or for all.
    void gather_in_stages(const std::byte* in, std::byte* out, std::size_t count, int root);
    // The parts are those of `root`, or of all.
    void scatter_in_stages(const std::byte* in, std::byte* out, std::size_t count, int root);
    void reduce_scatter(const std::byte* in, std::byte* out, std::size_t count);
    void broadcast(std::byte* data, std::size_t count, int root);
    // A Slice is what a rank reduces: so many bytes at `place` of the others' stages, its own values, and where it wants
    // the result: nowhere if null.
    struct Slice {
        std::size_t place;
        std::size_t size;
        const std::byte* own;
        std::byte* out;
    };
    // share(result, place, bytes) is called for every block, while it is in the cache.
    template <class Share>
    void reduce_slice(std::uint64_t round, const Slice& slice, Share share);

    ShmChannel& channel_;
    DataType type_;
    ReduceOp op_;
    bool announced_;
};

// Finds out which stores suit the processor, by trying both.
// Called by all ranks, as part of making the communicator and before any other call: reduces a little through
// the stages with each type of store, and returns the faster one as this rank saw it; plain where the ranks
// cannot all run at once, since times say nothing there. Takes less than a millisecond. Throws as
// PeerMesh::wait does.
StoreType probe_store_type(ShmChannel& channel, const PeerMesh::Operation& joining);

}  // namespace ddprun::inline detail
