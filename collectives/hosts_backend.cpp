#include "collectives/hosts_backend.hpp"

#include "collectives/hosts_reduction.hpp"
#include "collectives/shm_reduce.hpp"

namespace ddprun {

HostsBackend::HostsBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp, RankGroup across)
    : segment_(std::move(segment)),
      tcp_(std::move(tcp)),
      channel_(segment_, tcp_->mesh()),
      across_(tcp_->mesh(), std::move(across)) {}

void HostsBackend::run(const Task& task) {
    const Operation kind = task.call.operation;
    if (is_point_to_point(kind)) return tcp_->run(task);
    if (kind != Operation::all_reduce && kind != Operation::barrier) return run_over_tcp(task);
    PeerMesh::Operation operation = tcp_->begin(task.call);
    operation.deadline = PeerMesh::Clock::now() + operation.limit.length;
    const ShmTurn turn(channel_, operation);
    try {
        kind == Operation::barrier ? barrier(operation) : all_reduce(task, operation);
    } catch (const LinkLost& lost) {
        tcp_->mesh().fail_lost(lost, operation);
    }
}

void HostsBackend::run_over_tcp(const Task& task) {
    {
        const ShmTurn turn(channel_, tcp_->prepare(task.call));
        channel_.announce();
    }
    tcp_->run(task);
}

void HostsBackend::barrier(const PeerMesh::Operation& operation) {
    channel_.announce();
    channel_.await_all();
    // Whoever gets through this knows of one rank on each host that all of that host have come.
    across_.barrier(operation);
}

void HostsBackend::all_reduce(const Task& task, const PeerMesh::Operation& operation) {
    if (bytes_of(task) <= kHostsWholeVector) return all_reduce_whole(task, operation);
    HostsReduction(channel_, across_, tcp_->mesh(), partials_, operation).run(task);
}

void HostsBackend::all_reduce_whole(const Task& task, const PeerMesh::Operation& operation) {
    const Call& call = task.call;
    const PartialKind kind = partial_kind(call, tcp_->mesh().world_size());
    const std::size_t bytes = bytes_of(task);
    copy_bytes(channel_.slot(channel_.rank()), task.in, bytes);
    channel_.announce();
    channel_.await_all();
    make_room(partials_, call.count * size_of(kind.carried), tcp_->mesh(), operation);
    reduce_partial(kind, channel_.world_size(), partials_.data(), call.count,
                   [&](int place) { return channel_.slot(place); });
    across_.all_reduce(partials_.data(), partials_.data(), call.count, kind.carried, kind.op, operation);
    finish_partial(kind, output_of(task), partials_.data(), call.count);
}

}  // namespace ddprun
