#include "collectives/shm/shm_backend.hpp"

#include <algorithm>

#include "collectives/shm/copy_shared.hpp"
#include "collectives/shm/shm_channel.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "collectives/shm/shm_slices.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// A reduction of ranks that run at once is done by every rank for itself as long as all inputs together have
// no more than this: reading them takes less than one more flight between cores.
constexpr std::size_t kFlatTogether = std::size_t{8} << 10;

}  // namespace

ShmBackend::ShmBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp,
                       const PeerMesh::Operation& joining)
    : segment_(std::move(segment)),
      tcp_(std::move(tcp)),
      channel_(segment_, tcp_->mesh()),
      lifeline_(segment_, tcp_->mesh().rank(), {}, tcp_->mesh().lifeline(), &channel_.waiting()),
      rank_(channel_.rank()),
      world_size_(channel_.world_size()),
      pool_(segment_.pool(rank_)),
      notes_(static_cast<std::size_t>(world_size_)) {
    channel_.set_store_type(probe_store_type(channel_, segment_.all_measured, joining));
}

void ShmBackend::offer(const void* in, std::size_t own, std::size_t bytes) {
    copy_bytes(place(rank_, bytes), in, own);
    channel_.announce();
}

void ShmBackend::offer_parts(const Task& task, std::size_t bytes) {
    if (!task.parts) return offer(task.in, bytes, bytes);
    std::byte* to = place(rank_, bytes);
    for (int rank = 0; rank < world_size_; ++rank, to += bytes_of(task))
        copy_bytes(to, input_part(task, rank), input_bytes(task, rank));
    channel_.announce();
}

void ShmBackend::exchange(const void* in, std::size_t bytes) {
    offer(in, bytes, bytes);
    channel_.await_all();
}

void ShmBackend::await_root(int root) {
    channel_.announce();
    channel_.await(root);
}

std::size_t ShmBackend::largest_flat_reduction() const noexcept {
    if (channel_.is_crowded()) return segment_.layout().slot_payload();
    return kFlatTogether / static_cast<std::size_t>(world_size_);
}

ShmNote ShmBackend::note_of(const Task& task) const {
    const OperationTraits traits = traits_of(task.call.operation);
    const std::size_t parts = traits.whole_in ? static_cast<std::size_t>(world_size_) : 1;
    const auto offset = [&](Where where, const void* data) -> std::uint64_t {
        if (where == Where::root && task.call.root != rank_) return 0;
        if (!pool_ || !pool_->owns(data, parts * bytes_of(task))) return 0;
        return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - segment_.memory(0));
    };
    const bool from_root = task.call.operation == Operation::broadcast;
    const ShmNote note{offset(from_root ? Where::root : traits.in, task.in), offset(traits.out, task.out)};
    if (!traits.reduces || traits.whole_in) {
        // The others look for equal parts, one behind the other; and an all_to_all in place writes over what
        // they have yet to read.
        const bool listed = task.parts && (task.parts->counted || !task.parts->in.empty());
        const bool in_place = traits.whole_in && traits.whole_out && (task.in == task.out || task.parts);
        return {listed || in_place ? 0 : note.in, 0};
    }
    const bool writes = !traits.has_root || task.call.root == rank_;
    return writes && note.out == 0 ? ShmNote{} : note;
}

bool ShmBackend::all_have(const Task& task, const ShmNote& note) {
    channel_.write_note(note);
    channel_.announce();
    channel_.await_all();
    const std::size_t bytes = bytes_of(task);
    for (int rank = 0; rank < world_size_; ++rank) {
        const bool writes = task.call.root < 0 || task.call.root == rank;
        const ShmNote theirs = channel_.note(rank, task.call.type, bytes, writes ? bytes : 0);
        if (theirs.in == 0) return false;
        notes_[static_cast<std::size_t>(rank)] = theirs;
    }
    return true;
}

void ShmBackend::reduce_in_pools(const Task& task) {
    const Call& call = task.call;
    const int n = world_size_;
    const auto note = [&](int peer) { return notes_[static_cast<std::size_t>(peer)]; };
    const auto input = [&](int peer) { return channel_.memory(note(peer).in); };
    const auto output = [&](int peer) { return channel_.memory(note(peer).out); };
    const auto writes = [&](int peer) { return call.root < 0 || call.root == peer; };
    const ShmPiece slice = shm_slice(bytes_of(task), rank_, n);
    const bool direct = writes(rank_) && may_reduce_in_place(call.type, call.reduce, n);
    alignas(kShmLine) std::array<std::byte, kReduceBlock> block;
    for (std::size_t at = slice.begin; at < slice.begin + slice.size; at += kReduceBlock) {
        const std::size_t bytes = std::min(kReduceBlock, slice.begin + slice.size - at);
        std::byte* result = direct ? output(rank_) + at : block.data();
        reduce_in_order(call.type, call.reduce, n, result, bytes, [&](int peer) { return input(peer) + at; });
        if (writes(rank_)) copy_bytes(output(rank_) + at, result, bytes);
        for (int i = 1; i < n; ++i) {
            const int peer = (rank_ + i) % n;
            if (writes(peer)) copy_shared(channel_.store_type(), output(peer) + at, result, bytes);
        }
    }
    // Nobody returns while others still read its input or write its output.
    const std::uint64_t round = channel_.first_round();
    channel_.set_reduced_and_released(round);
    for (int i = 1; i < n; ++i) channel_.await_reduced((rank_ + i) % n, round);
    channel_.rounds_used(1);
}

void ShmBackend::reduce_places(const Task& task, std::size_t bytes, std::size_t first) {
    const std::size_t own = output_bytes(task, rank_);
    if (own == 0) return;
    reduce_in_order(task.call.type, task.call.reduce, world_size_, output_of(task), own,
                    [&](int rank) { return place(rank, bytes) + first; });
}

void ShmBackend::collect_places(const Task& task, std::size_t bytes, std::size_t first) {
    for (int rank = 0; rank < world_size_; ++rank)
        copy_bytes(output_part(task, rank), place(rank, bytes) + first, output_bytes(task, rank));
}

SharedMemory ShmBackend::allocate(std::size_t bytes) {
    // After a failure a rank that is late may still write to what this one has let go of.
    SharedMemory memory = pool_ && !ended() ? pool_->allocate(bytes) : SharedMemory();
    return memory.size() == bytes ? std::move(memory) : private_memory(bytes);
}

bool ShmBackend::fits_places(const Task& task) const {
    const std::size_t bytes = bytes_of(task);
    const Operation operation = task.call.operation;
    if (operation == Operation::all_reduce || operation == Operation::reduce)
        return bytes <= largest_flat_reduction();
    const std::size_t parts = traits_of(operation).whole_in ? static_cast<std::size_t>(world_size_) : 1;
    return parts * bytes <= segment_.layout().slot_payload();
}

void ShmBackend::all_reduce_in_places(const Task& task, std::size_t bytes) {
    copy_bytes(place(rank_, bytes), task.in, bytes);
    const bool is_last = channel_.announce_and_hold();
    const int last = is_last ? rank_ : channel_.await_all();
    // Ranks that take turns would reduce one after the other, so one does it for all.
    if (channel_.is_crowded() && !is_last) return copy_bytes(task.out, place(last, bytes), bytes);
    reduce_places(task, bytes, 0);
    if (!is_last) return;
    copy_bytes(place(rank_, bytes), task.out, bytes);
    channel_.release();
}

void ShmBackend::run_in_places(const Task& task) {
    const int root = task.call.root;
    const std::size_t part = bytes_of(task);
    const std::size_t whole = part * static_cast<std::size_t>(world_size_);
    const std::size_t own = static_cast<std::size_t>(rank_) * part;
    switch (task.call.operation) {
        case Operation::all_reduce: return all_reduce_in_places(task, part);
        case Operation::reduce_scatter:
            offer_parts(task, whole);
            channel_.await_all();
            return reduce_places(task, whole, own);
        case Operation::reduce:
            offer(task.in, part, part);
            if (rank_ != root) return;
            channel_.await_all();
            return reduce_places(task, part, 0);
        case Operation::split:
        case Operation::parts: exchange(task.in, part); return collect_places(task, part, 0);
        case Operation::all_gather:
            offer(task.in, output_bytes(task, rank_), part);
            channel_.await_all();
            return collect_places(task, part, 0);
        case Operation::all_to_all:
            offer_parts(task, whole);
            channel_.await_all();
            return collect_places(task, whole, own);
        case Operation::gather:
            offer(task.in, input_bytes(task, root), part);
            if (rank_ != root) return;
            channel_.await_all();
            return collect_places(task, part, 0);
        case Operation::broadcast:
            if (rank_ == root) return offer(task.in, part, part);
            await_root(root);
            return copy_bytes(task.out, place(root, part), part);
        case Operation::scatter:
            if (rank_ == root) {
                offer_parts(task, whole);
                return copy_bytes(task.out, input_part(task, rank_), input_bytes(task, rank_));
            }
            await_root(root);
            return copy_bytes(task.out, place(root, whole) + own, output_bytes(task, root));
        case Operation::barrier: return exchange(nullptr, 0);
        case Operation::none:
        case Operation::join:
        case Operation::send:
        case Operation::recv:
        case Operation::group: check(false, "an operation of all ranks is one of the known ones here");
    }
}

void ShmBackend::run(const Task& task) {
    const ShmTurn turn(channel_, tcp_->begin(task.call, task.timeout));
    if (fits_places(task)) return run_in_places(task);
    const ShmNote note = note_of(task);
    const OperationTraits traits = traits_of(task.call.operation);
    const bool in_one_pass = traits.reduces && !traits.whole_in;
    const bool direct = note.in != 0 && (!in_one_pass || all_have(task, note));
    if (direct) ++direct_operations_;
    if (direct && in_one_pass) return reduce_in_pools(task);
    run_in_stages(channel_, task, in_one_pass ? ShmNote() : note, in_one_pass && note.in != 0);
}

}  // namespace detail
}  // namespace ddprun
