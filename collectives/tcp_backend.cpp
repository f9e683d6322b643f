#include "collectives/tcp_backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "collectives/reduce.hpp"
#include "collectives/transfer.hpp"
#include "collectives/tree_schedule.hpp"

namespace ddprun {
namespace {

std::byte* bytes_at(void* data, std::size_t offset = 0) { return static_cast<std::byte*>(data) + offset; }

const std::byte* bytes_at(const void* data, std::size_t offset = 0) {
    return static_cast<const std::byte*>(data) + offset;
}

void copy(std::byte* out, const std::byte* in, std::size_t bytes) {
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

template <class Body>
void TcpBackend::run(Call call, Body body) {
    PeerMesh::Operation operation = begin(call);
    operation.deadline = PeerMesh::Clock::now() + operation_timeout_;
    try {
        body(operation);
    } catch (const LinkLost& lost) {
        mesh_.fail_lost(lost, operation);
    }
}

void TcpBackend::all_reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
    run({Operation::all_reduce, type, op, -1, count}, [&](const PeerMesh::Operation& operation) {
        const std::size_t bytes = count * size_of(type);
        if (bytes <= kSmallGather / static_cast<std::size_t>(world_size())) {
            disseminate(bytes_at(in), bytes, operation);
            reduce_blocks(bytes_at(out), count, type, op);
            return;
        }
        for (int i = 0; i < world_size(); ++i) {
            const Range range = chunk_range(count, world_size(), i);
            const std::size_t offset = range.begin * size_of(type);
            chunks_[static_cast<std::size_t>(i)] = {bytes_at(in, offset), bytes_at(out, offset), range.size};
        }
        run_ring(RingSchedule::all_reduce(rank(), world_size()), type, op, false, operation);
    });
}

void TcpBackend::broadcast(void* data, std::size_t count, DataType type, int root) {
    run({Operation::broadcast, type, ReduceOp::sum, root, count}, [&](const PeerMesh::Operation& operation) {
        const std::size_t bytes = count * size_of(type);
        if (bytes <= kSmallBroadcast) {
            const TreePlace place = binomial_tree(rank(), world_size(), root);
            if (place.parent >= 0) transfer(mesh_, {place.parent, bytes_at(data), bytes}, {}, operation);
            for (const int child : place.children)
                transfer(mesh_, {}, {child, bytes_at(data), bytes}, operation);
            return;
        }
        const int left = rank() == root ? -1 : mesh_.membership().left();
        const int right = mesh_.membership().right() == root ? -1 : mesh_.membership().right();
        relay(mesh_, left, right, bytes_at(data), bytes, operation);
    });
}

void TcpBackend::all_gather(const void* in, void* out, std::size_t count, DataType type) {
    run({Operation::all_gather, type, ReduceOp::sum, -1, count}, [&](const PeerMesh::Operation& operation) {
        const std::size_t bytes = count * size_of(type);
        if (bytes <= kSmallGather / static_cast<std::size_t>(world_size())) {
            disseminate(bytes_at(in), bytes, operation);
            for (int i = 0; i < world_size(); ++i) {
                copy(bytes_at(out, static_cast<std::size_t>(i) * bytes), block_of(i, bytes), bytes);
            }
            return;
        }
        copy(bytes_at(out, static_cast<std::size_t>(rank()) * bytes), bytes_at(in), bytes);
        for (int i = 0; i < world_size(); ++i) {
            std::byte* part = bytes_at(out, static_cast<std::size_t>(i) * bytes);
            chunks_[static_cast<std::size_t>(i)] = {part, part, count};
        }
        run_ring(RingSchedule::all_gather(rank(), world_size()), type, ReduceOp::sum, false, operation);
    });
}

void TcpBackend::reduce_scatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
    run({Operation::reduce_scatter, type, op, -1, count}, [&](const PeerMesh::Operation& operation) {
        const std::size_t bytes = count * size_of(type);
        make_room(partial_, world_size() > 2 ? bytes : 0, operation);
        for (int i = 0; i < world_size(); ++i) {
            std::byte* kept = i == rank() ? bytes_at(out) : partial_.data();
            chunks_[static_cast<std::size_t>(i)] = {bytes_at(in, static_cast<std::size_t>(i) * bytes), kept,
                                                    count};
        }
        run_ring(RingSchedule::reduce_scatter(rank(), world_size()), type, op, true, operation);
    });
}

void TcpBackend::barrier() {
    run({Operation::barrier},
        [&](const PeerMesh::Operation& operation) { disseminate(nullptr, 0, operation); });
}

void TcpBackend::send(const void* data, std::size_t count, DataType type, int peer) {
    run({Operation::send, type, ReduceOp::sum, peer, count}, [&](const PeerMesh::Operation& operation) {
        transfer(mesh_, {}, {peer, bytes_at(data), count * size_of(type)}, operation);
    });
}

void TcpBackend::recv(void* data, std::size_t count, DataType type, int peer) {
    run({Operation::recv, type, ReduceOp::sum, peer, count}, [&](const PeerMesh::Operation& operation) {
        transfer(mesh_, {peer, bytes_at(data), count * size_of(type)}, {}, operation);
    });
}

void TcpBackend::disseminate(const std::byte* block, std::size_t bytes,
                             const PeerMesh::Operation& operation) {
    make_room(blocks_, bytes * static_cast<std::size_t>(world_size()), operation);
    copy(blocks_.data(), block, bytes);
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
    const std::size_t bytes = count * size_of(type);
    copy(out, block_of(0, bytes), bytes);
    for (int i = 1; i < world_size(); ++i) combine(op, type, out, block_of(i, bytes), out, count);
    if (op == ReduceOp::avg) finish_average(type, out, count, world_size());
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
