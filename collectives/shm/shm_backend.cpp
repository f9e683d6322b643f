#include "collectives/shm/shm_backend.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "collectives/shm/shm_channel.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun::inline detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A reduction of ranks that run at once is done by every rank for itself as long as all inputs together have
// no more than this: reading them takes less than one more flight between cores.
constexpr std::size_t kFlatTogether = std::size_t{8} << 10;

}  // namespace

std::size_t ShmArea::size_for(int ranks, std::size_t bytes) {
    const auto count = static_cast<std::size_t>(ranks);
    if (bytes > std::numeric_limits<std::size_t>::max() / count - kShmPage) return 0;
    return (bytes + kShmPage - 1) / kShmPage * kShmPage * count;
}

ShmArea::ShmArea(ShmMapping mapping, int ranks, std::size_t bytes)
    : mapping_(std::move(mapping)), part_size_(size_for(ranks, bytes) / static_cast<std::size_t>(ranks)) {
    // Only a wish: fewer faults and less to look up where the system has such pages.
    if (part_size_ >= kHugePage)
        static_cast<void>(::madvise(mapping_.base(), size_for(ranks, bytes), MADV_HUGEPAGE));
}

void ShmAreas::add(const std::shared_ptr<const ShmArea>& area) {
    std::erase_if(held_, [](const Held& held) { return held.area.expired(); });
    held_.push_back({++last_, area});
}

ShmAreas::Place ShmAreas::find(const void* data, std::size_t bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    for (const Held& held : held_) {
        std::shared_ptr<const ShmArea> area = held.area.lock();
        if (!area) continue;
        const auto begin = reinterpret_cast<std::uintptr_t>(area->part(rank_));
        if (first < begin || first - begin > area->part_size()) continue;
        if (bytes <= area->part_size() - (first - begin))
            return {held.number, first - begin, std::move(area)};
    }
    return {};
}

ShmBackend::ShmBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp,
                       const PeerMesh::Operation& joining)
    : segment_(std::move(segment)),
      tcp_(std::move(tcp)),
      channel_(segment_, tcp_->mesh()),
      lifeline_(segment_, tcp_->mesh().rank(), {}, tcp_->mesh().lifeline(), &channel_.waiting()),
      rank_(channel_.rank()),
      world_size_(channel_.world_size()),
      areas_(rank_) {
    channel_.set_store_type(probe_store_type(channel_, joining));
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

void ShmBackend::all_reduce_large(const Task& task) {
    const Call& call = task.call;
    const ShmAreas::Place in = areas_.find(task.in, bytes_of(task));
    const ShmAreas::Place out = areas_.find(task.out, bytes_of(task));
    const bool asks = in.area && out.area;
    if (asks && all_have(in, out)) {
        ++direct_reductions_;
        return all_reduce_in_areas(call, in, out);
    }
    run_in_stages(channel_, task, asks);
}

bool ShmBackend::all_have(const ShmAreas::Place& in, const ShmAreas::Place& out) {
    channel_.write_note({in.number, out.number, in.offset, out.offset});
    channel_.announce();
    channel_.await_all();
    // The same numbers everywhere: so every rank has both areas, and every rank comes to the same answer.
    for (int rank = 0; rank < world_size_; ++rank) {
        const ShmNote note = channel_.note(rank);
        if (note.in != in.number || note.out != out.number) return false;
    }
    return true;
}

void ShmBackend::all_reduce_in_areas(const Call& call, const ShmAreas::Place& in,
                                     const ShmAreas::Place& out) {
    const int n = world_size_;
    const auto input = [&](int peer) { return in.area->part(peer) + channel_.note(peer).in_offset; };
    const auto output = [&](int peer) { return out.area->part(peer) + channel_.note(peer).out_offset; };
    const ShmPiece slice = shm_slice(call.count * size_of(call.type), rank_, n);
    const bool direct = may_reduce_in_place(call.type, call.reduce, n);
    alignas(kShmLine) std::array<std::byte, kReduceBlock> block;
    for (std::size_t at = slice.begin; at < slice.begin + slice.size; at += kReduceBlock) {
        const std::size_t bytes = std::min(kReduceBlock, slice.begin + slice.size - at);
        std::byte* result = direct ? output(rank_) + at : block.data();
        reduce_in_order(call.type, call.reduce, n, result, bytes, [&](int peer) { return input(peer) + at; });
        copy_bytes(output(rank_) + at, result, bytes);
        for (int i = 1; i < n; ++i) {
            copy_shared(channel_.store_type(), output((rank_ + i) % n) + at, result, bytes);
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
    const Call call{Operation::allocate, DataType::u8, ReduceOp::sum, -1, bytes};
    const std::size_t size = ShmArea::size_for(world_size_, bytes);
    std::optional<ShmMapping> mapping;
    if (rank_ == 0 && size > 0) mapping = ShmMapping::create(kShmName, size);
    {
        const ShmTurn turn(channel_, tcp_->begin(call));
        const ShmOffer own = mapping ? mapping->offer() : ShmOffer{};
        exchange(&own, sizeof(own));
        ShmOffer offer;
        std::memcpy(&offer, place(0, sizeof(offer)), sizeof(offer));
        if (rank_ != 0) mapping = ShmMapping::open(offer, size);
    }
    const ShmTurn turn(channel_, tcp_->begin(call));
    const auto has_it = static_cast<std::byte>(mapping.has_value());
    exchange(&has_it, 1);
    for (int rank = 0; rank < world_size_; ++rank) {
        if (*place(rank, 1) != std::byte{0}) continue;
        areas_.skip();
        return private_memory(bytes);
    }
    mapping->close_offer();
    const auto area = std::make_shared<const ShmArea>(std::move(*mapping), world_size_, bytes);
    areas_.add(area);
    return {std::shared_ptr<std::byte>(area, area->part(rank_)), bytes};
}

bool ShmBackend::fits_places(const Task& task) const {
    const std::size_t bytes = bytes_of(task);
    const Operation operation = task.call.operation;
    if (operation == Operation::all_reduce || operation == Operation::reduce)
        return bytes <= largest_flat_reduction();
    const std::size_t parts = traits_of(operation).whole_in ? static_cast<std::size_t>(world_size_) : 1;
    return parts * bytes <= segment_.layout().slot_payload();
}

void ShmBackend::run_in_places(const Task& task) {
    const int root = task.call.root;
    const std::size_t part = bytes_of(task);
    const std::size_t whole = part * static_cast<std::size_t>(world_size_);
    const std::size_t own = static_cast<std::size_t>(rank_) * part;
    switch (task.call.operation) {
        case Operation::all_reduce: exchange(task.in, part); return reduce_places(task, part, 0);
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
        case Operation::allocate:
        case Operation::send:
        case Operation::recv:
        case Operation::group: check(false, "an operation of all ranks is one of the known ones here");
    }
}

void ShmBackend::run(const Task& task) {
    if (is_point_to_point(task.call.operation)) return tcp_->run(task);
    const ShmTurn turn(channel_, tcp_->begin(task.call, task.timeout));
    if (fits_places(task)) return run_in_places(task);
    if (task.call.operation == Operation::all_reduce) return all_reduce_large(task);
    run_in_stages(channel_, task);
}

}  // namespace ddprun::inline detail
