// ShmBackend: collectives of two or more ranks on one host through shared memory. The caller's thread does
// all the work.
//
// The size of what a rank puts in, in all, decides the way:
//   up to 56 B     inside the announcement itself: one cache line from every rank to every rank
//   up to 64 KiB   (128 KiB of all ranks) in the rank's slot; every rank reads what it needs
//   above          in staged rounds, see shm_pipeline.hpp; if each rank has a core of its own, reductions
//                  already above 8 KiB of all ranks
// From there on, buffers in a rank's pool (shm_pool.hpp) go without stages: the others read the input where
// it lies. A reduction for all or a root takes one pass, each rank reducing its slice, where all ranks'
// inputs lie in pools, and all outputs, too. Reductions take the ranks in the order 0 … n-1. Results are thus
// bitwise equal on all ranks and from run to run, as long as the ranks share a host.
//
// A ring of robust futexes finds the dead at once (shm_lifeline.hpp).
//
// The TCP backend beneath stays: its lifeline carries verdicts, and finds the dead where futexes cannot;
// send, recv and groups go over it.
#pragma once

#include <memory>
#include <vector>

#include "collectives/shm/shm_lifeline.hpp"
#include "collectives/shm/shm_pipeline.hpp"
#include "collectives/tcp/tcp_backend.hpp"

namespace ddprun {
inline namespace detail {

class ShmBackend final : public Backend {
  public:
    // ShmBackend takes the segment that its ranks agreed on (shm_segment.hpp), and takes part in the last of
    // what the ranks do to join. Throws as PeerMesh::wait does.
    ShmBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp, const PeerMesh::Operation& joining);

    void run(const Task& task) override;
    SharedMemory allocate(std::size_t bytes) override;
    bool owns(const void* data) const override { return pool_ && pool_->owns(data, 1); }
    std::vector<int> leave(Deadline deadline) override { return tcp_->leave(deadline); }
    void abort(const std::string& reason) override { tcp_->abort(reason); }
    std::optional<Verdict> verdict() const override { return tcp_->verdict(); }
    void set_timeout(std::chrono::milliseconds timeout) override { tcp_->set_timeout(timeout); }

    // direct_operations() and set_store_type() are for tests: how many operations needed no stage of this
    // rank's, and other stores than the probe chose.
    std::uint64_t direct_operations() const noexcept { return direct_operations_; }
    void set_store_type(StoreType type) noexcept { channel_.set_store_type(type); }

  private:
    // Returns where each rank's input is: in the announcements or the slots, depending on `bytes`.
    std::byte* place(int rank, std::size_t bytes) const {
        return bytes <= kShmInlinePayload ? channel_.payload(rank) : channel_.slot(rank);
    }
    // largest_flat_reduction(): up to so many bytes are reduced in one piece; of more, each rank reduces its
    // slice.
    std::size_t largest_flat_reduction() const noexcept;
    // Returns whether what each rank puts in has room in its place; if not, it goes through stages or pools.
    bool fits_places(const Task& task) const;
    void run_in_places(const Task& task);
    void all_reduce_in_places(const Task& task, std::size_t bytes);
    // Returns where in the segment the task's buffers lie that others may use there.
    ShmNote note_of(const Task& task) const;
    // Asks whether all ranks' buffers lie in pools, as this rank's do. Announces the open call with the note,
    // and waits for all others' announcements. All ranks know from the same notes whether stages can be done
    // without; if not, they go through stages as in a call that is announced already.
    bool all_have(const Task& task, const ShmNote& note);
    // reduce_in_pools, after all_have(): every rank reads its slice of all inputs and writes the result into
    // the outputs, all or the root's. Two waits.
    void reduce_in_pools(const Task& task);
    // Puts this rank's `own` bytes into its place, of `bytes`, for others to read.
    void offer(const void* in, std::size_t own, std::size_t bytes);
    // Puts this rank's parts for all ranks into its place, of `bytes` in all.
    void offer_parts(const Task& task, std::size_t bytes);
    // Puts this rank's `bytes` into its place, and waits until all others have done so too.
    void exchange(const void* in, std::size_t bytes);
    // Announces the call with nothing in this rank's place, and waits until the root has announced it.
    void await_root(int root);
    // reduce_places and collect_places take from all ranks' places, of `bytes` each, what begins at `first`:
    // reduced, or one after the other.
    void reduce_places(const Task& task, std::size_t bytes, std::size_t first);
    void collect_places(const Task& task, std::size_t bytes, std::size_t first);

    // segment_ comes first, since members end in the reverse of this order: the lifeline wakes sleepers in
    // the segment.
    ShmSegment segment_;
    std::unique_ptr<TcpBackend> tcp_;
    ShmChannel channel_;
    ShmLifeline lifeline_;
    int rank_;
    int world_size_;
    std::shared_ptr<ShmPool> pool_;
    std::vector<ShmNote> notes_;  // of the open call, by place; looked at once
    std::uint64_t direct_operations_ = 0;
};

}  // namespace detail
}  // namespace ddprun
