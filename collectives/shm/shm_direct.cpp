#include "collectives/shm/shm_direct.hpp"

#include <algorithm>

#include "collectives/shm/shm_reduce.hpp"
#include "collectives/shm/shm_slice.hpp"

namespace ddprun {

bool ShmDirect::agree() {
    channel_.write_note({in_.number, out_.number, in_.offset, out_.offset});
    channel_.announce();
    channel_.await_all();
    // The same numbers everywhere: so every rank has both areas, and every rank comes to the same answer.
    for (int rank = 0; rank < channel_.world_size(); ++rank) {
        const ShmNote note = channel_.note(rank);
        if (note.in != in_.number || note.out != out_.number) return false;
    }
    return true;
}

void ShmDirect::all_reduce(std::size_t count, DataType type, ReduceOp op) {
    const int n = channel_.world_size();
    const int rank = channel_.rank();
    const auto input = [&](int peer) { return in_.area->part(peer) + channel_.note(peer).in_offset; };
    const auto output = [&](int peer) { return out_.area->part(peer) + channel_.note(peer).out_offset; };
    const ShmPiece slice = shm_slice(count * size_of(type), rank, n);
    const bool direct = may_reduce_in_place(type, op, n);
    alignas(kShmLine) std::array<std::byte, kReduceBlock> block;
    for (std::size_t at = slice.begin; at < slice.begin + slice.size; at += kReduceBlock) {
        const std::size_t bytes = std::min(kReduceBlock, slice.begin + slice.size - at);
        std::byte* result = direct ? output(rank) + at : block.data();
        reduce_in_order(type, op, n, result, bytes, [&](int peer) { return input(peer) + at; });
        copy_bytes(output(rank) + at, result, bytes);
        for (int i = 1; i < n; ++i) {
            copy_shared(channel_.store_type(), output((rank + i) % n) + at, result, bytes);
        }
    }
    // Nobody returns while others still read its input or write its output.
    const std::uint64_t round = channel_.first_round();
    channel_.set_reduced_and_released(round);
    for (int i = 1; i < n; ++i) channel_.await_reduced((rank + i) % n, round);
    channel_.rounds_used(1);
}

}  // namespace ddprun
