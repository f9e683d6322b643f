// HostsReduction: a large all_reduce over several hosts (see HostsBackend).
//
// The buffer is cut into chunks, a chunk into one slice for each rank of the host. Of each chunk a rank
// reduces its slice from the inputs of its host, in rounds of staged data; then the slice with the same slice
// on the other hosts; then hands it round on its host. While the slices of one chunk are between the hosts,
// the next chunk is reduced within them.
//
// The channel must have an open, not yet announced call. Throws LinkLost, or as PeerMesh::wait.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/reduce.hpp"
#include "collectives/shm_channel.hpp"
#include "collectives/task.hpp"
#include "collectives/tcp_group.hpp"

namespace ddprun {

// A slice of a chunk has no more than this, of the type in which it is carried.
inline constexpr std::size_t kHostsSlice = std::size_t{512} << 10;

// How partial results are carried until all ranks' values are in them.
struct PartialKind {
    DataType type;     // of the elements
    DataType carried;  // f32 for what is rounded once at the end
    ReduceOp op;       // sum for avg
    int averaged = 0;  // what sums are divided by at the end; 0: nothing
};
PartialKind partial_kind(const Call& call, int world_size);

// out = part_of(0) op … op part_of(n - 1), for two parts or more, not finished. `out` overlaps no part.
template <class PartOf>
void reduce_partial(const PartialKind& kind, int n, std::byte* out, std::size_t count, PartOf part_of) {
    if (kind.carried == kind.type) {
        combine(kind.op, kind.type, out, part_of(1), part_of(0), count);
        for (int place = 2; place < n; ++place) combine(kind.op, kind.type, out, part_of(place), out, count);
        return;
    }
    constexpr std::size_t kBlock = 2048;
    std::array<float, kBlock> next;
    for (std::size_t done = 0; done < count; done += kBlock) {
        const std::size_t size = std::min(kBlock, count - done);
        float* sum = reinterpret_cast<float*>(out) + done;
        const auto widened = [&](int place, float* to) {
            widen(kind.type, to, part_of(place) + done * size_of(kind.type), size);
        };
        widened(0, sum);
        for (int place = 1; place < n; ++place) {
            widened(place, next.data());
            combine(kind.op, kind.carried, sum, next.data(), sum, size);
        }
    }
}

// The partial results of all ranks together, divided and rounded, at `out`.
void finish_partial(const PartialKind& kind, std::byte* out, std::byte* partial, std::size_t count);

class HostsReduction {
  public:
    // Borrows everything; `partials` is memory to keep for the next.
    HostsReduction(ShmChannel& channel, TcpGroup& across, PeerMesh& mesh, std::vector<std::byte>& partials,
                   const PeerMesh::Operation& operation);

    void run(const Task& task);

  private:
    // The part of the buffer that is the slice of a rank of this host.
    Range slice(std::uint64_t chunk, int place) const;
    std::byte* partial(std::uint64_t chunk);
    void reduce_within(std::uint64_t chunk);
    void hand_round(std::uint64_t chunk);
    // One rank's part of a round within `largest` bytes of slices, `step` at a time: in bytes from the
    // slice's beginning.
    Range piece(const Range& slice, std::size_t done, std::size_t step) const;
    // stage(i) then use(i) for all rounds i, staging one ahead.
    template <class Stage, class Use>
    void run_rounds(std::size_t rounds, Stage stage, Use use);
    void announce_once();
    int other(int i) const { return (channel_.rank() + i) % channel_.world_size(); }

    ShmChannel& channel_;
    TcpGroup& across_;
    PeerMesh& mesh_;
    std::vector<std::byte>& partials_;
    const PeerMesh::Operation& operation_;
    PartialKind kind_;
    std::size_t element_;
    const std::byte* in_ = nullptr;
    std::byte* out_ = nullptr;
    std::size_t count_ = 0;
    std::uint64_t chunks_ = 1;
    std::size_t slice_room_ = 0;  // bytes of the largest slice, as carried
    std::uint64_t rounds_ = 0;    // used so far
    bool announced_ = false;
};

}  // namespace ddprun
