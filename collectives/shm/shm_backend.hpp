// ShmBackend: collectives of two or more ranks on one host through shared memory. The caller's thread does
// all the work.
//
// The size of what a rank puts in, in all, decides the way:
//   up to 56 B     inside the announcement itself: one cache line from every rank to every rank
//   up to 64 KiB   (128 KiB of all ranks) in the rank's slot; everybody reads what it needs
//   above          in staged rounds, see shm_pipeline.hpp; if each rank has a core of its own, reductions
//                  already above 8 KiB of all ranks
// What lies in a rank's pool (shm_pool.hpp) goes without its stages from there on: the others read the input
// where it lies; and where those of all ranks do, and what a reduction for all or a root writes, each rank
// reduces its slice in one pass. Reductions take the ranks in the order 0 … n-1, so results are bitwise equal
// on all ranks and from run to run, as long as the ranks share a host.
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
    // The segment is the one its ranks agreed on (shm_segment.hpp).
    // Takes part in the last of what the ranks do to join; throws as PeerMesh::wait does.
    ShmBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp, const PeerMesh::Operation& joining);

    void run(const Task& task) override;
    SharedMemory allocate(std::size_t bytes) override;
    bool owns(const void* data) const override { return pool_ && pool_->owns(data, 1); }
    std::vector<int> leave(Deadline deadline) override { return tcp_->leave(deadline); }
    void abort(const std::string& reason) override { tcp_->abort(reason); }
    std::optional<Verdict> verdict() const override { return tcp_->verdict(); }
    void set_timeout(std::chrono::milliseconds timeout) override { tcp_->set_timeout(timeout); }

    // Tests use these: how many operations needed no stage of this rank's; and other stores than the probe
    // chose.
    std::uint64_t direct_operations() const noexcept { return direct_operations_; }
    void set_store_type(StoreType type) noexcept { channel_.set_store_type(type); }

  private:
    // The place of each rank's input in the announcement or the slots; which of them depends on `bytes`.
    std::byte* place(int rank, std::size_t bytes) const {
        return bytes <= kShmInlinePayload ? channel_.payload(rank) : channel_.slot(rank);
    }
    // All ranks reduce everything of up to so many bytes; of more, each its slice.
    std::size_t largest_flat_reduction() const noexcept;
    // Whether what each rank puts in has room in its place; if not, it goes through stages or pools.
    bool fits_places(const Task& task) const;
    void run_in_places(const Task& task);
    void all_reduce_in_places(const Task& task, std::size_t bytes);
    // Where in the segment the task's buffers lie that others may use there.
    ShmNote note_of(const Task& task) const;
    // Asks whether all ranks' buffers lie in pools, as this rank's do. It announces the open call with the
    // note, and waits for all others' announcements; so all ranks know from the same notes whether everybody
    // can do without stages. If not, they go through stages as in a call that is announced already.
    bool all_have(const Task& task, const ShmNote& note);
    // Then every rank reads its slice of all inputs and writes the result into the outputs, all or the
    // root's. Two waits.
    void reduce_in_pools(const Task& task);
    // Puts this rank's `own` bytes into its place, of `bytes`, for others to read.
    void offer(const void* in, std::size_t own, std::size_t bytes);
    // The same of its parts for all ranks.
    void offer_parts(const Task& task, std::size_t bytes);
    // Puts its `bytes` there, and waits until all others have done so too.
    void exchange(const void* in, std::size_t bytes);
    // Puts nothing into its place, and waits until the root has done so.
    void await_root(int root);
    // These take from all ranks' places, of `bytes` each, what begins at `first`: reduced, or one after the
    // other.
    void reduce_places(const Task& task, std::size_t bytes, std::size_t first);
    void collect_places(const Task& task, std::size_t bytes, std::size_t first);

    // Members end in the reverse of this order: the lifeline wakes sleepers in the segment.
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
