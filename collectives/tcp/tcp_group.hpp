// TcpGroup: what some ranks of a mesh do together over TCP: all-gather, reduce-scatter, all-reduce,
// broadcast.
//
// Small messages take few steps, large ones the least bytes:
//   all_reduce, all_gather: dissemination up to kSmallGather bytes in all ranks' blocks together; above, the
//   ring, but for an all_reduce of two ranks, which swap all they have
//   reduce_scatter: the ring
// Dissemination takes as many steps as recursive doubling, for any number of ranks, and lets every rank
// combine all values at once. Dissemination and the swap combine in the order of the group. The ring combines
// chunk c in the order c, c+1, … (mod n); one rank finishes each element, the others copy it. Results are
// therefore bitwise equal on all ranks, and from run to run with the same group.
//
// The ring reduces f16 and bf16 as f32 and hands the results round as they are, so they are rounded once; it
// needs memory for the input as f32. Of compressed elements, the swap and dissemination round each rank's
// once, and the ring rounds at every step of its reducing half.
//
// A TcpGroup is used by one thread, in the same order on all ranks of the group. All functions throw
// LinkLost, or as PeerMesh::wait. Averages divide by the size of the group, or, if compressed, by what the
// WireKind says.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/tcp/ring_run.hpp"
#include "collectives/tcp/swap_run.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

inline constexpr std::size_t kSmallGather = std::size_t{64} << 10;
inline constexpr std::size_t kSmallBroadcast = std::size_t{64} << 10;

// Makes `buffer` at least that large. A rank's memory only grows, so a call of a size seen before allocates
// nothing. Ends the communicator where there is no memory.
void make_room(std::vector<std::byte>& buffer, std::size_t bytes, PeerMesh& mesh,
               const PeerMesh::Operation& operation);

class TcpGroup {
  public:
    using Operation = PeerMesh::Operation;

    // Borrows `mesh`; `ranks` has two ranks or more.
    TcpGroup(PeerMesh& mesh, RankGroup ranks);

    int size() const noexcept { return ranks_.size(); }
    int index() const noexcept { return ranks_.index; }

    // Reduces; `in` may be `out`.
    void all_reduce(const std::byte* in, std::byte* out, std::size_t count, const WireKind& kind,
                    const Operation& operation);
    // Starts an all_reduce, which finish() completes, for a caller that has other work meanwhile. `operation`
    // and the memory must stay until finish(). Between the two only advance() may be called.
    void start_all_reduce(const std::byte* in, std::byte* out, std::size_t count, const WireKind& kind,
                          const Operation& operation);
    // Moves what can be moved without waiting.
    void advance();
    void finish(const Operation& operation);

    // Gathers bytes; each count of `out` is in bytes. `in` may be this rank's part of `out`.
    void all_gather(const std::byte* in, std::span<const Part> out, const Operation& operation);
    // Reduces by the ring's reducing half: the parts of `in` are its chunks. The chunk of this rank is left
    // at `out`, which may be that part of `in`.
    void reduce_scatter(std::span<const Part> in, std::byte* out, DataType type, ReduceOp op,
                        const Operation& operation);
    // Sends from the rank in place `root`: by a binomial tree up to kSmallBroadcast bytes, else by a chain
    // that hands on what arrives.
    void broadcast(std::byte* data, std::size_t bytes, int root, const Operation& operation);
    // Returns when all ranks have come.
    void barrier(const Operation& operation) { disseminate(nullptr, 0, 0, operation); }

    // Returns one part of `data` for each rank, of `count` elements in all.
    std::vector<Part> even_parts(const std::byte* data, std::size_t count, DataType type) const;

  private:
    bool is_small(std::size_t bytes) const noexcept {
        return bytes <= kSmallGather / static_cast<std::size_t>(size());
    }
    // Leaves all ranks' blocks of `bytes` in blocks_: this rank's first, then those of the next rank, and so
    // on. `own` is the size of this rank's block in bytes.
    void disseminate(const std::byte* block, std::size_t own, std::size_t bytes, const Operation& operation);
    const std::byte* block_of(int place, std::size_t bytes) const;
    void reduce_scatter_as_f32(std::span<const Part> in, std::byte* out, DataType type, ReduceOp op,
                               const Operation& operation);
    // Hands round all ranks' parts, of which this rank has its own, by the ring's second half.
    void gather_parts(std::span<const Part> parts, DataType type, const Operation& operation);
    // Starts flows_; chunks_ are the ring's.
    void start_ring(const RingSchedule& schedule, const WireKind& kind, bool shared_keep,
                    const Operation& operation);
    void start_swap(const std::byte* in, std::byte* out, std::size_t count, const WireKind& kind,
                    const Operation& operation);
    // Returns the range of `in` as it travels: where it is, or compressed in travelling_, which has room for
    // `count`.
    const std::byte* as_sent(const std::byte* in, std::size_t count, const Range& range, const WireKind& kind,
                             const Operation& operation);
    std::span<std::byte> segment_of(int lane);

    PeerMesh& mesh_;
    RankGroup ranks_;
    std::vector<std::byte> blocks_;
    std::vector<std::byte> segments_;
    std::vector<std::byte> partial_;
    std::vector<std::byte> wide_;
    std::vector<std::byte> travelling_;
    std::vector<const void*> inputs_;
    std::vector<RingChunk> chunks_;
    std::array<std::optional<RingRun>, kMaxLanes> rings_;
    std::array<std::optional<SwapRun>, kMaxLanes> swaps_;
    std::array<Flow*, kMaxLanes> flows_{};
    std::size_t lanes_ = 0;  // flows under way
};

}  // namespace detail
}  // namespace ddprun
