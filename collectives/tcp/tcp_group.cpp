#include "collectives/tcp/tcp_group.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/arithmetic/schedule.hpp"
#include "collectives/call/task.hpp"
#include "collectives/tcp/flow.hpp"
#include "collectives/tcp/ring_run.hpp"
#include "collectives/tcp/swap_run.hpp"

namespace ddprun {
inline namespace detail {

void make_room(std::vector<std::byte>& buffer, std::size_t bytes, PeerMesh& mesh,
               const PeerMesh::Operation& operation) {
    if (buffer.size() >= bytes) return;
    try {
        buffer.resize(bytes);
    } catch (const std::bad_alloc&) {
        mesh.fail({CollectiveErrorCode::system,
                   {mesh.rank()},
                   fmt::format("rank {} has no memory for {} bytes", mesh.rank(), bytes)},
                  operation);
    }
}

TcpGroup::TcpGroup(PeerMesh& mesh, RankGroup ranks)
    : mesh_(mesh), ranks_(std::move(ranks)), chunks_(static_cast<std::size_t>(ranks_.size())) {}

void TcpGroup::all_reduce(const std::byte* in, std::byte* out, std::size_t count, const WireKind& kind,
                          const Operation& operation) {
    const std::size_t bytes = count * size_of(kind.wire);
    if (is_small(bytes)) {
        disseminate(as_sent(in, count, {0, count}, kind, operation), bytes, bytes, operation);
        inputs_.clear();
        for (int i = 0; i < size(); ++i) inputs_.push_back(block_of(i, bytes));
        if (kind.compressed()) return combine_expanded(kind, out, inputs_, count);
        return combine_all(kind.op, kind.type, out, inputs_, count);
    }
    if (!kind.compressed() && carries_f32(kind.op, kind.type) && size() > 2) {
        const std::vector<Part> parts = even_parts(out, count, kind.type);
        auto* own = static_cast<std::byte*>(parts[static_cast<std::size_t>(index())].data);
        reduce_scatter_as_f32(even_parts(in, count, kind.type), own, kind.type, kind.op, operation);
        return gather_parts(parts, kind.type, operation);
    }
    start_all_reduce(in, out, count, kind, operation);
    finish(operation);
}

void TcpGroup::start_all_reduce(const std::byte* in, std::byte* out, std::size_t count, const WireKind& kind,
                                const Operation& operation) {
    if (size() == 2) return start_swap(in, out, count, kind, operation);
    // A rank of a ring sends its own chunk first, and what it has received after that.
    as_sent(in, count, chunk_range(count, size(), index()), kind, operation);
    std::byte* kept = kind.compressed() ? travelling_.data() : out;
    for (int i = 0; i < size(); ++i) {
        const Range range = chunk_range(count, size(), i);
        const std::size_t offset = range.begin * size_of(kind.type);
        chunks_[static_cast<std::size_t>(i)] = {in + offset, kept + range.begin * size_of(kind.wire),
                                                range.size, out + offset};
    }
    start_ring(RingSchedule::all_reduce(index(), size()), kind, false, operation);
}

const std::byte* TcpGroup::as_sent(const std::byte* in, std::size_t count, const Range& range,
                                   const WireKind& kind, const Operation& operation) {
    if (!kind.compressed()) return in + range.begin * size_of(kind.type);
    make_room(travelling_, count * size_of(kind.wire), mesh_, operation);
    std::byte* sent = travelling_.data() + range.begin * size_of(kind.wire);
    compress(kind, sent, in + range.begin * size_of(kind.type), range.size);
    return sent;
}

void TcpGroup::advance() {
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
        if (!flows_[lane]->done()) flows_[lane]->move();
    }
}

void TcpGroup::finish(const Operation& operation) {
    run_flows(mesh_, std::span(flows_).first(lanes_), operation);
    lanes_ = 0;
}

void TcpGroup::all_gather(const std::byte* in, std::span<const Part> out, const Operation& operation) {
    const std::size_t bytes = std::ranges::max(out, {}, &Part::count).count;
    const Part& own = out[static_cast<std::size_t>(index())];
    if (is_small(bytes)) {
        disseminate(in, own.count, bytes, operation);
        int place = 0;
        for (const Part& part : out) copy_bytes(part.data, block_of(place++, bytes), part.count);
        return;
    }
    copy_bytes(own.data, in, own.count);
    gather_parts(out, DataType::u8, operation);
}

void TcpGroup::broadcast(std::byte* data, std::size_t bytes, int root, const Operation& operation) {
    if (bytes <= kSmallBroadcast) {
        const TreePlace place = binomial_tree(index(), size(), root);
        if (place.parent >= 0) transfer(mesh_, {ranks_.at(place.parent), data, bytes}, {}, operation);
        for (const int child : place.children) {
            transfer(mesh_, {}, {ranks_.at(child), data, bytes}, operation);
        }
        return;
    }
    const bool is_last = (index() + 1) % size() == root;
    relay(mesh_, index() == root ? -1 : ranks_.left(), is_last ? -1 : ranks_.right(), data, bytes, operation);
}

void TcpGroup::disseminate(const std::byte* block, std::size_t own, std::size_t bytes,
                           const Operation& operation) {
    make_room(blocks_, bytes * static_cast<std::size_t>(size()), mesh_, operation);
    copy_bytes(blocks_.data(), block, own);
    for (int i = 0; i < dissemination_rounds(size()); ++i) {
        const DisseminationRound round = dissemination_round(index(), size(), i);
        const std::size_t whole = static_cast<std::size_t>(round.blocks) * bytes;
        std::byte* place = blocks_.data() + static_cast<std::size_t>(round.held) * bytes;
        transfer(mesh_, {ranks_.at(round.from), place, whole}, {ranks_.at(round.to), blocks_.data(), whole},
                 operation);
    }
}

const std::byte* TcpGroup::block_of(int place, std::size_t bytes) const {
    const int held = (place - index() + size()) % size();
    return blocks_.data() + static_cast<std::size_t>(held) * bytes;
}

std::vector<Part> TcpGroup::even_parts(const std::byte* data, std::size_t count, DataType type) const {
    std::vector<Part> parts;
    for (int i = 0; i < size(); ++i) {
        const Range range = chunk_range(count, size(), i);
        parts.push_back({const_cast<std::byte*>(data) + range.begin * size_of(type), range.size});
    }
    return parts;
}

void TcpGroup::reduce_scatter(std::span<const Part> in, std::byte* out, DataType type, ReduceOp op,
                              const Operation& operation) {
    if (carries_f32(op, type)) return reduce_scatter_as_f32(in, out, type, op, operation);
    const std::size_t largest = std::ranges::max(in, {}, &Part::count).count;
    make_room(partial_, size() > 2 ? largest * size_of(type) : 0, mesh_, operation);
    for (std::size_t i = 0; i < in.size(); ++i) {
        std::byte* kept = static_cast<int>(i) == index() ? out : partial_.data();
        chunks_[i] = {static_cast<const std::byte*>(in[i].data), kept, in[i].count};
    }
    start_ring(RingSchedule::reduce_scatter(index(), size()), as_it_is(type, op), true, operation);
    finish(operation);
}

void TcpGroup::reduce_scatter_as_f32(std::span<const Part> in, std::byte* out, DataType type, ReduceOp op,
                                     const Operation& operation) {
    std::size_t count = 0;
    for (const Part& part : in) count += part.count;
    make_room(wide_, count * sizeof(float), mesh_, operation);
    std::byte* next = wide_.data();
    for (std::size_t i = 0; i < in.size(); ++i) {
        widen(type, reinterpret_cast<float*>(next), in[i].data, in[i].count);
        chunks_[i] = {next, next, in[i].count};
        next += in[i].count * sizeof(float);
    }
    start_ring(RingSchedule::reduce_scatter(index(), size()), as_it_is(DataType::f32, op), false, operation);
    finish(operation);
    const RingChunk& own = chunks_[static_cast<std::size_t>(index())];
    narrow(type, out, reinterpret_cast<const float*>(own.own), own.count);
}

void TcpGroup::gather_parts(std::span<const Part> parts, DataType type, const Operation& operation) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
        auto* part = static_cast<std::byte*>(parts[i].data);
        chunks_[i] = {part, part, parts[i].count};
    }
    start_ring(RingSchedule::all_gather(index(), size()), as_it_is(type, ReduceOp::sum), false, operation);
    finish(operation);
}

void TcpGroup::start_ring(const RingSchedule& schedule, const WireKind& kind, bool shared_keep,
                          const Operation& operation) {
    std::size_t largest = 0;
    std::size_t whole = 0;
    for (const RingChunk& chunk : chunks_) {
        largest = std::max(largest, chunk.count);
        whole += chunk.count;
    }
    const int lanes = lanes_for(whole * size_of(kind.wire) / chunks_.size(), mesh_.lanes());
    lanes_ = static_cast<std::size_t>(lanes);
    make_room(segments_, kRingSegment * lanes_, mesh_, operation);
    for (int lane = 0; lane < lanes; ++lane) {
        const auto slot = static_cast<std::size_t>(lane);
        RingPlan plan{schedule, kind, chunks_, segment_of(lane)};
        plan.left = ranks_.left();
        plan.right = ranks_.right();
        plan.averaged = size();
        plan.lane = lane;
        plan.stride = (largest + lanes_ - 1) / lanes_;
        plan.shared_keep = shared_keep;
        flows_[slot] = &rings_[slot].emplace(mesh_, plan, operation);
    }
    advance();
}

void TcpGroup::start_swap(const std::byte* in, std::byte* out, std::size_t count, const WireKind& kind,
                          const Operation& operation) {
    const std::byte* own = as_sent(in, count, {0, count}, kind, operation);
    const int lanes = lanes_for(count * size_of(kind.wire), mesh_.lanes());
    lanes_ = static_cast<std::size_t>(lanes);
    make_room(segments_, kRingSegment * lanes_, mesh_, operation);
    for (int lane = 0; lane < lanes; ++lane) {
        const auto slot = static_cast<std::size_t>(lane);
        const Range part = chunk_range(count, lanes, lane);
        SwapPlan plan{kind, own + part.begin * size_of(kind.wire), out + part.begin * size_of(kind.type),
                      part.size, segment_of(lane)};
        plan.peer = ranks_.right();
        plan.first = index() == 0;
        plan.lane = lane;
        flows_[slot] = &swaps_[slot].emplace(mesh_, plan, operation);
    }
    advance();
}

std::span<std::byte> TcpGroup::segment_of(int lane) {
    return std::span(segments_).subspan(static_cast<std::size_t>(lane) * kRingSegment, kRingSegment);
}

}  // namespace detail
}  // namespace ddprun
