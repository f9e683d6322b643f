#include "collectives/tcp_backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "collectives/exchange_schedule.hpp"
#include "collectives/reduce.hpp"
#include "collectives/transfer.hpp"
#include "collectives/tree_schedule.hpp"
#include "rendezvous/check.hpp"

namespace ddprun {
namespace {

std::byte* bytes_at(void* data, std::size_t offset = 0) { return static_cast<std::byte*>(data) + offset; }

const std::byte* bytes_at(const void* data, std::size_t offset = 0) {
    return static_cast<const std::byte*>(data) + offset;
}

// The part that belongs to a rank, of a buffer with `bytes` for each.
template <class Pointer>
auto part_at(Pointer data, int rank, std::size_t bytes) {
    return bytes_at(data, static_cast<std::size_t>(rank) * bytes);
}

void copy_bytes(std::byte* out, const std::byte* in, std::size_t bytes) {
    if (bytes > 0 && out != in) std::memcpy(out, in, bytes);
}

}  // namespace

TcpBackend::TcpBackend(Membership membership, TcpListener listener, const PeerMesh::Operation& joining,
                       std::chrono::milliseconds operation_timeout)
    : mesh_(std::move(membership), std::move(listener), joining),
      operation_timeout_(operation_timeout),
      segment_(kRingSegment),
      chunks_(static_cast<std::size_t>(mesh_.world_size())) {}

TcpBackend::~TcpBackend() { mesh_.leave(); }

PeerMesh::Operation TcpBackend::begin(Call call) {
    if (!is_point_to_point(call.operation)) ++sequence_;
    call.sequence = sequence_;
    const PeerMesh::Operation operation{
        call, PeerMesh::Clock::time_point::max(), {operation_timeout_, "operation_timeout"}};
    mesh_.enter(operation);
    return operation;
}

PeerMesh::Operation TcpBackend::prepare(Call call) {
    PeerMesh::Operation operation = begin(call);
    --sequence_;
    return operation;
}

void TcpBackend::run(const Task& task) {
    PeerMesh::Operation operation = begin(task.call);
    operation.deadline = PeerMesh::Clock::now() + operation_timeout_;
    try {
        dispatch(task, operation);
    } catch (const LinkLost& lost) {
        mesh_.fail_lost(lost, operation);
    }
}

void TcpBackend::all_reduce(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const std::size_t bytes = bytes_of(task);
    if (bytes <= kSmallGather / static_cast<std::size_t>(world_size())) {
        disseminate(input_of(task), bytes, operation);
        reduce_blocks(output_of(task), call.count, call.type, call.reduce);
        return;
    }
    if (carries_f32(call.reduce, call.type)) {
        const std::vector<Range> ranges = even_ranges(call.count);
        const std::size_t own = ranges[static_cast<std::size_t>(rank())].begin * size_of(call.type);
        reduce_own_range_as_f32(task.in, bytes_at(task.out, own), ranges, call.type, call.reduce, operation);
        gather_ranges(output_of(task), ranges, call.type, operation);
        return;
    }
    for (int i = 0; i < world_size(); ++i) {
        const Range range = chunk_range(call.count, world_size(), i);
        const std::size_t offset = range.begin * size_of(call.type);
        chunks_[static_cast<std::size_t>(i)] = {bytes_at(task.in, offset), bytes_at(task.out, offset),
                                                range.size};
    }
    run_ring(RingSchedule::all_reduce(rank(), world_size()), call.type, call.reduce, false, operation);
}

void TcpBackend::broadcast(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const std::size_t bytes = bytes_of(task);
    if (bytes <= kSmallBroadcast) {
        const TreePlace place = binomial_tree(rank(), world_size(), call.root);
        if (place.parent >= 0) transfer(mesh_, {place.parent, output_of(task), bytes}, {}, operation);
        for (const int child : place.children)
            transfer(mesh_, {}, {child, output_of(task), bytes}, operation);
        return;
    }
    const int left = rank() == call.root ? -1 : mesh_.membership().left();
    const int right = mesh_.membership().right() == call.root ? -1 : mesh_.membership().right();
    relay(mesh_, left, right, output_of(task), bytes, operation);
}

void TcpBackend::all_gather(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const std::size_t bytes = bytes_of(task);
    if (bytes <= kSmallGather / static_cast<std::size_t>(world_size())) {
        disseminate(input_of(task), bytes, operation);
        for (int i = 0; i < world_size(); ++i) {
            copy_bytes(part_at(task.out, i, bytes), block_of(i, bytes), bytes);
        }
        return;
    }
    copy_bytes(part_at(task.out, rank(), bytes), input_of(task), bytes);
    gather_ranges(output_of(task), equal_ranges(call.count), call.type, operation);
}

void TcpBackend::reduce_scatter(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    reduce_own_range(task.in, output_of(task), equal_ranges(call.count), call.type, call.reduce, operation);
}

void TcpBackend::reduce(const Task& task, const PeerMesh::Operation& operation) {
    const bool small = bytes_of(task) <= kSmallReduce;
    small ? reduce_in_tree(task.in, task.out, operation) : reduce_in_ring(task.in, task.out, operation);
}

void TcpBackend::gather(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const std::size_t bytes = bytes_of(task);
    if (rank() != call.root) return transfer(mesh_, {}, {call.root, input_of(task), bytes}, operation);
    copy_bytes(part_at(task.out, rank(), bytes), input_of(task), bytes);
    for (int i = 1; i < world_size(); ++i) {
        const int from = (rank() + i) % world_size();
        transfer(mesh_, {from, part_at(task.out, from, bytes), bytes}, {}, operation);
    }
}

void TcpBackend::scatter(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const std::size_t bytes = bytes_of(task);
    if (rank() != call.root) return transfer(mesh_, {call.root, output_of(task), bytes}, {}, operation);
    for (int i = 1; i < world_size(); ++i) {
        const int to = (rank() + i) % world_size();
        transfer(mesh_, {}, {to, part_at(task.in, to, bytes), bytes}, operation);
    }
    copy_bytes(output_of(task), part_at(task.in, rank(), bytes), bytes);
}

void TcpBackend::all_to_all(const Task& task, const PeerMesh::Operation& operation) {
    const std::size_t bytes = bytes_of(task);
    const bool in_place = task.in == task.out;
    make_room(partial_, in_place ? bytes : 0, operation);
    for (int step = 0; step < exchange_steps(world_size()); ++step) {
        const int partner = exchange_partner(rank(), world_size(), step);
        std::byte* place = part_at(task.out, partner, bytes);
        if (partner == rank()) {
            copy_bytes(place, part_at(task.in, partner, bytes), bytes);
            continue;
        }
        std::byte* received = in_place ? partial_.data() : place;
        transfer(mesh_, {partner, received, bytes}, {partner, part_at(task.in, partner, bytes), bytes},
                 operation);
        copy_bytes(place, received, bytes);
    }
}

void TcpBackend::dispatch(const Task& task, const PeerMesh::Operation& operation) {
    const int peer = task.call.root;
    switch (task.call.operation) {
        case Operation::all_reduce: return all_reduce(task, operation);
        case Operation::broadcast: return broadcast(task, operation);
        case Operation::all_gather: return all_gather(task, operation);
        case Operation::split: return all_gather(task, operation);
        case Operation::reduce_scatter: return reduce_scatter(task, operation);
        case Operation::reduce: return reduce(task, operation);
        case Operation::gather: return gather(task, operation);
        case Operation::scatter: return scatter(task, operation);
        case Operation::all_to_all: return all_to_all(task, operation);
        case Operation::barrier: return disseminate(nullptr, 0, operation);
        case Operation::send: return transfer(mesh_, {}, {peer, input_of(task), bytes_of(task)}, operation);
        case Operation::recv: return transfer(mesh_, {peer, output_of(task), bytes_of(task)}, {}, operation);
        case Operation::none:
        case Operation::join:
        case Operation::allocate: break;
    }
    check(false, "a backend is given operations only");
}

void TcpBackend::reduce_in_tree(const void* in, void* out, const PeerMesh::Operation& operation) {
    const Call& call = operation.call;
    const bool wide = carries_f32(call.reduce, call.type);
    const DataType carried = wide ? DataType::f32 : call.type;
    const std::size_t bytes = call.count * size_of(carried);
    const TreePlace place = binomial_tree(rank(), world_size(), call.root);
    make_room(blocks_, bytes, operation);
    make_room(partial_, bytes, operation);
    const std::byte* own = bytes_at(in);
    std::byte* sum = place.parent < 0 && !wide ? bytes_at(out) : partial_.data();
    if (wide) {
        widen(call.type, reinterpret_cast<float*>(sum), in, call.count);
        own = sum;
    }
    // The smallest subtree is ready first.
    for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
        transfer(mesh_, {*child, blocks_.data(), bytes}, {}, operation);
        combine(call.reduce, carried, sum, blocks_.data(), own, call.count);
        own = sum;
    }
    if (place.parent >= 0) return transfer(mesh_, {}, {place.parent, own, bytes}, operation);
    if (call.reduce == ReduceOp::avg) finish_average(carried, sum, call.count, world_size());
    if (wide) narrow(call.type, out, reinterpret_cast<const float*>(sum), call.count);
}

void TcpBackend::reduce_in_ring(const void* in, void* out, const PeerMesh::Operation& operation) {
    const Call& call = operation.call;
    const std::size_t element = size_of(call.type);
    const std::vector<Range> ranges = even_ranges(call.count);
    const Range own = ranges[static_cast<std::size_t>(rank())];
    const bool is_root = rank() == call.root;
    make_room(blocks_, is_root ? 0 : own.size * element, operation);
    std::byte* result = is_root ? bytes_at(out, own.begin * element) : blocks_.data();
    reduce_own_range(in, result, ranges, call.type, call.reduce, operation);
    if (!is_root) return transfer(mesh_, {}, {call.root, result, own.size * element}, operation);
    for (int i = 1; i < world_size(); ++i) {
        const int from = (rank() + i) % world_size();
        const Range range = ranges[static_cast<std::size_t>(from)];
        transfer(mesh_, {from, bytes_at(out, range.begin * element), range.size * element}, {}, operation);
    }
}

void TcpBackend::disseminate(const std::byte* block, std::size_t bytes,
                             const PeerMesh::Operation& operation) {
    make_room(blocks_, bytes * static_cast<std::size_t>(world_size()), operation);
    copy_bytes(blocks_.data(), block, bytes);
    for (int i = 0; i < dissemination_rounds(world_size()); ++i) {
        const DisseminationRound round = dissemination_round(rank(), world_size(), i);
        const std::size_t size = static_cast<std::size_t>(round.blocks) * bytes;
        std::byte* place = blocks_.data() + static_cast<std::size_t>(round.held) * bytes;
        transfer(mesh_, {round.from, place, size}, {round.to, blocks_.data(), size}, operation);
    }
}

const std::byte* TcpBackend::block_of(int rank_of_block, std::size_t bytes) const {
    const int place = (rank_of_block - rank() + world_size()) % world_size();
    return blocks_.data() + static_cast<std::size_t>(place) * bytes;
}

void TcpBackend::reduce_blocks(std::byte* out, std::size_t count, DataType type, ReduceOp op) {
    inputs_.clear();
    for (int i = 0; i < world_size(); ++i) inputs_.push_back(block_of(i, count * size_of(type)));
    combine_all(op, type, out, inputs_, count);
}

std::vector<Range> TcpBackend::equal_ranges(std::size_t each) const {
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < chunks_.size(); ++i) ranges.push_back({i * each, each});
    return ranges;
}

std::vector<Range> TcpBackend::even_ranges(std::size_t count) const {
    std::vector<Range> ranges;
    for (int i = 0; i < world_size(); ++i) ranges.push_back(chunk_range(count, world_size(), i));
    return ranges;
}

void TcpBackend::reduce_own_range(const void* in, std::byte* out, std::span<const Range> ranges,
                                  DataType type, ReduceOp op, const PeerMesh::Operation& operation) {
    if (carries_f32(op, type)) return reduce_own_range_as_f32(in, out, ranges, type, op, operation);
    const std::size_t element = size_of(type);
    // The first range is the largest.
    make_room(partial_, world_size() > 2 ? ranges[0].size * element : 0, operation);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        std::byte* kept = static_cast<int>(i) == rank() ? out : partial_.data();
        chunks_[i] = {bytes_at(in, ranges[i].begin * element), kept, ranges[i].size};
    }
    run_ring(RingSchedule::reduce_scatter(rank(), world_size()), type, op, true, operation);
}

void TcpBackend::reduce_own_range_as_f32(const void* in, std::byte* out, std::span<const Range> ranges,
                                         DataType type, ReduceOp op, const PeerMesh::Operation& operation) {
    const std::size_t count = ranges.back().begin + ranges.back().size;
    make_room(wide_, count * sizeof(float), operation);
    auto* wide = reinterpret_cast<float*>(wide_.data());
    widen(type, wide, in, count);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        std::byte* part = bytes_at(wide + ranges[i].begin);
        chunks_[i] = {part, part, ranges[i].size};
    }
    run_ring(RingSchedule::reduce_scatter(rank(), world_size()), DataType::f32, op, false, operation);
    const Range own = ranges[static_cast<std::size_t>(rank())];
    narrow(type, out, wide + own.begin, own.size);
}

void TcpBackend::gather_ranges(std::byte* data, std::span<const Range> ranges, DataType type,
                               const PeerMesh::Operation& operation) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        std::byte* part = data + ranges[i].begin * size_of(type);
        chunks_[i] = {part, part, ranges[i].size};
    }
    run_ring(RingSchedule::all_gather(rank(), world_size()), type, ReduceOp::sum, false, operation);
}

void TcpBackend::run_ring(const RingSchedule& schedule, DataType type, ReduceOp op, bool shared_keep,
                          const PeerMesh::Operation& operation) {
    RingRun(mesh_, {schedule, type, op, chunks_, segment_, shared_keep}, operation).run();
}

void TcpBackend::make_room(std::vector<std::byte>& buffer, std::size_t bytes,
                           const PeerMesh::Operation& operation) {
    if (buffer.size() >= bytes) return;
    try {
        buffer.resize(bytes);
    } catch (const std::bad_alloc&) {
        mesh_.fail(
            {CollectiveErrorCode::system,
             {rank()},
             "rank " + std::to_string(rank()) + " has no memory for " + std::to_string(bytes) + " bytes"},
            operation);
    }
}

}  // namespace ddprun
