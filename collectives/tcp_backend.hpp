// TcpBackend: collectives between two or more ranks over TCP. The caller's thread does all the work.
//
// Small messages take few steps, large ones the least bytes:
//   all_reduce, all_gather: dissemination up to kSmallGather bytes in all ranks' blocks together, else the
//   ring broadcast: binomial tree up to kSmallBroadcast bytes, else a chain that hands on what arrives
//   reduce_scatter: the ring
//   reduce: binomial tree up to kSmallReduce bytes, else the ring's reducing half, then all parts to the root
//   gather, scatter: each rank's part straight to or from the root
//   all_to_all: every two ranks swap their parts, one partner at a time
//   barrier: dissemination without payload
// Which one runs depends only on the call and the number of ranks, and each fixes the order in which the
// ranks' values are combined; so results are bitwise equal on all ranks and from run to run. Dissemination
// combines in rank order 0, 1, …; the tree joins the values of neighbouring ranks, counted from the root,
// then of pairs, and so on; the ring combines chunk c in the order c, c+1, … (mod n); one rank finishes each
// element, the others copy it. The ring reduces f16 and bf16 as f32 and hands their results round as they
// are, so they are rounded once; it needs memory for the input as f32.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "collectives/backend.hpp"
#include "collectives/peer_mesh.hpp"
#include "collectives/ring_run.hpp"

namespace ddprun {

inline constexpr std::size_t kSmallGather = std::size_t{64} << 10;
inline constexpr std::size_t kSmallBroadcast = std::size_t{64} << 10;
inline constexpr std::size_t kSmallReduce = std::size_t{64} << 10;

class TcpBackend final : public Backend {
  public:
    // Connects the ranks of `membership`, at least two; `listener` is the one it names for this rank.
    TcpBackend(Membership membership, TcpListener listener, const PeerMesh::Operation& joining,
               std::chrono::milliseconds operation_timeout);
    ~TcpBackend() override;

    void run(const Task& task) override;
    void abort(const std::string& reason) override { mesh_.abort(reason); }
    bool ended() const override { return mesh_.ended(); }

    // For a backend on top that carries out some calls by itself: counts and enters the next call, as run()
    // does. Throws if the communicator has ended. The deadline is left at the end of time, because the clock
    // takes longer than a small reduction: who waits for long sets it from the limit.
    PeerMesh::Operation begin(Call call);
    // The same for a call that then goes to run(), which counts it.
    PeerMesh::Operation prepare(Call call);
    PeerMesh& mesh() noexcept { return mesh_; }

    const Membership& membership() const noexcept { return mesh_.membership(); }

  private:
    void all_reduce(const Task& task, const PeerMesh::Operation& operation);
    void broadcast(const Task& task, const PeerMesh::Operation& operation);
    void all_gather(const Task& task, const PeerMesh::Operation& operation);
    void reduce_scatter(const Task& task, const PeerMesh::Operation& operation);
    void reduce(const Task& task, const PeerMesh::Operation& operation);
    void gather(const Task& task, const PeerMesh::Operation& operation);
    void scatter(const Task& task, const PeerMesh::Operation& operation);
    void all_to_all(const Task& task, const PeerMesh::Operation& operation);
    void dispatch(const Task& task, const PeerMesh::Operation& operation);
    void reduce_in_tree(const void* in, void* out, const PeerMesh::Operation& operation);
    void reduce_in_ring(const void* in, void* out, const PeerMesh::Operation& operation);
    // Leaves all ranks' blocks of `bytes` in blocks_, this rank's first, then those of rank + 1, ….
    void disseminate(const std::byte* block, std::size_t bytes, const PeerMesh::Operation& operation);
    const std::byte* block_of(int rank, std::size_t bytes) const;
    void reduce_blocks(std::byte* out, std::size_t count, DataType type, ReduceOp op);
    // The ring's reducing half: `ranges` of `in` are its chunks; this rank's is left at `out`, which may be
    // that part of `in`.
    void reduce_own_range(const void* in, std::byte* out, std::span<const Range> ranges, DataType type,
                          ReduceOp op, const PeerMesh::Operation& operation);
    void reduce_own_range_as_f32(const void* in, std::byte* out, std::span<const Range> ranges, DataType type,
                                 ReduceOp op, const PeerMesh::Operation& operation);
    // The ring's second half: all ranks' `ranges` of `data`, of which this rank has its own.
    void gather_ranges(std::byte* data, std::span<const Range> ranges, DataType type,
                       const PeerMesh::Operation& operation);
    // One range for each rank: of `each` elements, or of `count` elements in all.
    std::vector<Range> equal_ranges(std::size_t each) const;
    std::vector<Range> even_ranges(std::size_t count) const;
    void run_ring(const RingSchedule& schedule, DataType type, ReduceOp op, bool shared_keep,
                  const PeerMesh::Operation& operation);
    void make_room(std::vector<std::byte>& buffer, std::size_t bytes, const PeerMesh::Operation& operation);
    int rank() const noexcept { return mesh_.rank(); }
    int world_size() const noexcept { return mesh_.world_size(); }

    PeerMesh mesh_;
    std::chrono::milliseconds operation_timeout_;
    std::uint64_t sequence_ = 0;
    // Kept between calls, so that a call of a size seen before allocates nothing.
    std::vector<std::byte> blocks_;
    std::vector<std::byte> segment_;
    std::vector<std::byte> partial_;
    std::vector<std::byte> wide_;
    std::vector<const void*> inputs_;
    std::vector<RingChunk> chunks_;
};

}  // namespace ddprun
