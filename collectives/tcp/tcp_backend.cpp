#include "collectives/tcp/tcp_backend.hpp"

#include <fmt/core.h>

#include <new>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/arithmetic/schedule.hpp"
#include "collectives/tcp/flow.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace detail {
namespace {

void gather(PeerMesh& mesh, const Task& task, const PeerMesh::Operation& operation) {
    const int root = task.call.root;
    const std::size_t own = input_bytes(task, root);
    if (mesh.rank() != root) return transfer(mesh, {}, {root, input_of(task), own}, operation);
    copy_bytes(output_part(task, root), input_of(task), own);
    for (int i = 1; i < mesh.world_size(); ++i) {
        const int from = (root + i) % mesh.world_size();
        transfer(mesh, {from, output_part(task, from), output_bytes(task, from)}, {}, operation);
    }
}

void scatter(PeerMesh& mesh, const Task& task, const PeerMesh::Operation& operation) {
    const int root = task.call.root;
    const std::size_t own = output_bytes(task, root);
    if (mesh.rank() != root) return transfer(mesh, {root, output_of(task), own}, {}, operation);
    for (int i = 1; i < mesh.world_size(); ++i) {
        const int to = (root + i) % mesh.world_size();
        transfer(mesh, {}, {to, input_part(task, to), input_bytes(task, to)}, operation);
    }
    copy_bytes(output_of(task), input_part(task, root), own);
}

}  // namespace

TcpBackend::TcpBackend(Membership membership, std::optional<TcpListener> listener,
                       const PeerMesh::Operation& joining, std::chrono::milliseconds operation_timeout,
                       const Origin& origin)
    : mesh_(std::move(membership), std::move(listener), joining, origin),
      operation_timeout_(operation_timeout),
      group_(mesh_, all_ranks(mesh_.membership())) {}

TcpBackend::~TcpBackend() { mesh_.leave(); }

PeerMesh::Operation TcpBackend::begin(Call call, std::chrono::milliseconds timeout) {
    if (!is_point_to_point(call.operation)) ++sequence_;
    call.sequence = sequence_;
    const PeerMesh::Operation operation{call, Deadline::max(), timeout_of(timeout)};
    mesh_.enter(operation);
    return operation;
}

PeerMesh::Operation TcpBackend::prepare(const Task& task) {
    PeerMesh::Operation operation = begin(task.call, task.timeout);
    --sequence_;
    return operation;
}

void TcpBackend::run(const Task& task) {
    PeerMesh::Operation operation = begin(task.call, task.timeout);
    operation.deadline = Deadline::clock::now() + operation.timeout.length;
    const CallEnd end(mesh_.call_slot());
    try {
        dispatch(task, operation);
    } catch (const LinkLost& lost) {
        mesh_.fail_lost(lost, operation);
    } catch (const std::bad_alloc&) {
        mesh_.fail({CollectiveErrorCode::system, {rank()}, fmt::format("rank {} is out of memory", rank())},
                   operation);
    }
}

void TcpBackend::all_reduce(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const PartialKind kind = partial_kind(call, world_size());
    if (!kind.across.compressed()) {
        return group_.all_reduce(input_of(task), output_of(task), call.count,
                                 as_it_is(call.type, call.reduce), operation);
    }
    if (kind.carried == kind.type) {
        return group_.all_reduce(input_of(task), output_of(task), call.count, kind.across, operation);
    }
    make_room(partial_, call.count * sizeof(float), mesh_, operation);
    widen(call.type, reinterpret_cast<float*>(partial_.data()), task.in, call.count);
    group_.all_reduce(partial_.data(), partial_.data(), call.count, kind.across, operation);
    finish_partial(kind, output_of(task), partial_.data(), call.count);
}

void TcpBackend::all_gather(const Task& task, const PeerMesh::Operation& operation) {
    std::vector<Part> out;
    for (int i = 0; i < world_size(); ++i) out.push_back({output_part(task, i), output_bytes(task, i)});
    group_.all_gather(input_of(task), out, operation);
}

void TcpBackend::reduce_scatter(const Task& task, const PeerMesh::Operation& operation) {
    std::vector<Part> in;
    for (int i = 0; i < world_size(); ++i) in.push_back(part_of(task, &Parts::in, task.in, i));
    group_.reduce_scatter(in, output_of(task), task.call.type, task.call.reduce, operation);
}

void TcpBackend::all_to_all(const Task& task, const PeerMesh::Operation& operation) {
    for (int step = 0; step < exchange_steps(world_size()); ++step) {
        const int partner = exchange_partner(rank(), world_size(), step);
        std::byte* place = output_part(task, partner);
        const std::byte* sent = input_part(task, partner);
        const std::size_t bytes = output_bytes(task, partner);
        if (partner == rank()) {
            copy_bytes(place, sent, bytes);
            continue;
        }
        const bool in_place = place == sent;
        make_room(partial_, in_place ? bytes : 0, mesh_, operation);
        std::byte* received = in_place ? partial_.data() : place;
        transfer(mesh_, {partner, received, bytes}, {partner, sent, input_bytes(task, partner)}, operation);
        copy_bytes(place, received, bytes);
    }
}

void TcpBackend::dispatch(const Task& task, const PeerMesh::Operation& operation) {
    switch (task.call.operation) {
        case Operation::all_reduce: return all_reduce(task, operation);
        case Operation::broadcast:
            return group_.broadcast(output_of(task), bytes_of(task), task.call.root, operation);
        case Operation::all_gather:
        case Operation::split:
        case Operation::parts: return all_gather(task, operation);
        case Operation::reduce_scatter: return reduce_scatter(task, operation);
        case Operation::reduce:
            return bytes_of(task) <= kSmallReduce ? reduce_in_tree(task, operation)
                                                  : reduce_in_ring(task, operation);
        case Operation::gather: return gather(mesh_, task, operation);
        case Operation::scatter: return scatter(mesh_, task, operation);
        case Operation::all_to_all: return all_to_all(task, operation);
        case Operation::barrier: return group_.barrier(operation);
        case Operation::send:
        case Operation::recv:
        case Operation::group:
        case Operation::none:
        case Operation::join: break;
    }
    check(false, "a backend over TCP is given operations of all ranks only");
}

void TcpBackend::reduce_in_tree(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const bool wide = carries_f32(call.reduce, call.type);
    const DataType carried = wide ? DataType::f32 : call.type;
    const std::size_t bytes = call.count * size_of(carried);
    const TreePlace place = binomial_tree(rank(), world_size(), call.root);
    make_room(blocks_, bytes, mesh_, operation);
    make_room(partial_, bytes, mesh_, operation);
    const std::byte* own = input_of(task);
    std::byte* sum = place.parent < 0 && !wide ? output_of(task) : partial_.data();
    if (wide) {
        widen(call.type, reinterpret_cast<float*>(sum), task.in, call.count);
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
    if (wide) narrow(call.type, task.out, reinterpret_cast<const float*>(sum), call.count);
}

void TcpBackend::reduce_in_ring(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const std::size_t element = size_of(call.type);
    const Range own = chunk_range(call.count, world_size(), rank());
    const bool is_root = rank() == call.root;
    make_room(blocks_, is_root ? 0 : own.size * element, mesh_, operation);
    std::byte* result = is_root ? output_of(task) + own.begin * element : blocks_.data();
    group_.reduce_scatter(group_.even_parts(input_of(task), call.count, call.type), result, call.type,
                          call.reduce, operation);
    if (!is_root) return transfer(mesh_, {}, {call.root, result, own.size * element}, operation);
    for (int i = 1; i < world_size(); ++i) {
        const int from = (rank() + i) % world_size();
        const Range range = chunk_range(call.count, world_size(), from);
        transfer(mesh_, {from, output_of(task) + range.begin * element, range.size * element}, {}, operation);
    }
}

}  // namespace detail
}  // namespace ddprun
