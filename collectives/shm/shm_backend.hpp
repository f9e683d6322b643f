// ShmBackend: collectives of two or more ranks on one host through shared memory. The caller's thread does
// all the work.
//
// The size of what a rank puts in, in all, decides the way:
//   up to 56 B     inside the announcement itself: one cache line from every rank to every rank
//   up to 64 KiB   (128 KiB of all ranks) in the rank's slot; everybody reads what it needs
//   above          in staged rounds, see shm_pipeline.hpp; if each rank has a core of its own, reductions
//                  already above 8 KiB of all ranks
//   all_reduce of buffers that allocate() made goes without stages from there on
// Reductions take the ranks in the order 0 … n-1, so results are bitwise equal on all ranks and from run to
// run, as long as the ranks share a host.
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
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun::inline detail {

// ShmArea: one allocation that all ranks of a communicator have mapped, a part for each. See
// shared_buffer.hpp.
class ShmArea {
  public:
    // Bytes of the mapping for `ranks` parts of `bytes`, each a multiple of the page; 0 if there is no such
    // memory.
    static std::size_t size_for(int ranks, std::size_t bytes);

    ShmArea(ShmMapping mapping, int ranks, std::size_t bytes);

    std::byte* part(int rank) const noexcept {
        return mapping_.base() + static_cast<std::size_t>(rank) * part_size_;
    }
    std::size_t part_size() const noexcept { return part_size_; }

  private:
    ShmMapping mapping_;
    std::size_t part_size_;
};

// The areas of a communicator that this rank still holds. Numbers are the same on all ranks.
class ShmAreas {
  public:
    // A Place says where a buffer lies. `number` 0: in none of them.
    struct Place {
        std::uint32_t number = 0;
        std::size_t offset = 0;  // in this rank's part
        std::shared_ptr<const ShmArea> area;
    };

    explicit ShmAreas(int rank) : rank_(rank) {}

    // Counts an allocation that came about, or one that did not.
    void add(const std::shared_ptr<const ShmArea>& area);
    void skip() { ++last_; }
    Place find(const void* data, std::size_t bytes) const;

  private:
    struct Held {
        std::uint32_t number;
        std::weak_ptr<const ShmArea> area;
    };

    int rank_;
    std::uint32_t last_ = 0;
    std::vector<Held> held_;
};

class ShmBackend final : public Backend {
  public:
    // The segment is the one its ranks agreed on (shm_segment.hpp).
    // Takes part in the last of what the ranks do to join; throws as PeerMesh::wait does.
    ShmBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp, const PeerMesh::Operation& joining);

    void run(const Task& task) override;
    SharedMemory allocate(std::size_t bytes) override;
    std::vector<int> leave(Deadline deadline) override { return tcp_->leave(deadline); }
    void abort(const std::string& reason) override { tcp_->abort(reason); }
    std::optional<Verdict> verdict() const override { return tcp_->verdict(); }
    void set_timeout(std::chrono::milliseconds timeout) override { tcp_->set_timeout(timeout); }

    // Tests use these: how many all_reduces went without stages; and other stores than the probe chose.
    std::uint64_t direct_reductions() const noexcept { return direct_reductions_; }
    void set_store_type(StoreType type) noexcept { channel_.set_store_type(type); }

  private:
    // The place of each rank's input in the announcement or the slots; which of them depends on `bytes`.
    std::byte* place(int rank, std::size_t bytes) const {
        return bytes <= kShmInlinePayload ? channel_.payload(rank) : channel_.slot(rank);
    }
    // All ranks reduce everything of up to so many bytes; of more, each its slice.
    std::size_t largest_flat_reduction() const noexcept;
    // Whether what each rank puts in has room in its place; if not, it goes through stages or areas.
    bool fits_places(const Task& task) const;
    void run_in_places(const Task& task);
    void all_reduce_large(const Task& task);
    // Asks whether all ranks' buffers lie in areas, as this rank's do. It announces the open call, with a note that says
    // where they lie, and waits for all others' announcements; so all ranks know from the same notes whether everybody can do
    // without stages. If not, they go through stages as in a call that is announced already.
    bool all_have(const ShmAreas::Place& in, const ShmAreas::Place& out);
    // Then every rank reads its slice of all inputs and writes the result into all outputs. Two waits.
    void all_reduce_in_areas(const Call& call, const ShmAreas::Place& in, const ShmAreas::Place& out);
    // Puts this rank's `own` bytes into its place, of `bytes`, for others to read.
    void offer(const void* in, std::size_t own, std::size_t bytes);
    // The same of its parts for all ranks.
    void offer_parts(const Task& task, std::size_t bytes);
    // Puts its `bytes` there, and waits until all others have done so too.
    void exchange(const void* in, std::size_t bytes);
    // Puts nothing into its place, and waits until the root has done so.
    void await_root(int root);
    // These take from all ranks' places, of `bytes` each, what begins at `first`: reduced, or one after the other.
    void reduce_places(const Task& task, std::size_t bytes, std::size_t first);
    void collect_places(const Task& task, std::size_t bytes, std::size_t first);

    // Members end in the reverse of this order: the lifeline wakes sleepers in the segment.
    ShmSegment segment_;
    std::unique_ptr<TcpBackend> tcp_;
    ShmChannel channel_;
    ShmLifeline lifeline_;
    int rank_;
    int world_size_;
    ShmAreas areas_;
    std::uint64_t direct_reductions_ = 0;
};

}  // namespace ddprun::inline detail
