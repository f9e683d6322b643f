#include "collectives/shm_backend.hpp"

#include "collectives/shm_pipeline.hpp"
#include "collectives/shm_reduce.hpp"

namespace ddprun {
namespace {

// A call, from its entry to its end.
class ShmTurn {
  public:
    ShmTurn(ShmChannel& channel, const PeerMesh::Operation& operation) : channel_(channel) {
        channel.open(operation);
    }
    ~ShmTurn() { channel_.close(); }
    ShmTurn(const ShmTurn&) = delete;
    ShmTurn& operator=(const ShmTurn&) = delete;

  private:
    ShmChannel& channel_;
};

}  // namespace

ShmBackend::ShmBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp)
    : segment_(std::move(segment)),
      tcp_(std::move(tcp)),
      channel_(segment_, tcp_->mesh()),
      rank_(channel_.rank()),
      world_size_(channel_.world_size()) {}

void ShmBackend::exchange(const void* in, std::size_t bytes) {
    copy_bytes(place(rank_, bytes), in, bytes);
    channel_.announce();
    channel_.await_all();
}

void ShmBackend::all_reduce(const Task& task) {
    const Call& call = task.call;
    const ShmTurn turn(channel_, tcp_->begin(call));
    const std::size_t bytes = bytes_of(task);
    if (!is_small(bytes)) {
        return ShmPipeline(channel_, call.type, call.reduce)
            .all_reduce(input_of(task), output_of(task), call.count);
    }
    exchange(task.in, bytes);
    if (call.count == 0) return;
    reduce_in_order(call.type, call.reduce, world_size_, output_of(task), bytes,
                    [&](int rank) { return place(rank, bytes); });
}

void ShmBackend::broadcast(const Task& task) {
    const Call& call = task.call;
    const ShmTurn turn(channel_, tcp_->begin(call));
    const std::size_t bytes = bytes_of(task);
    if (!is_small(bytes)) {
        return ShmPipeline(channel_, call.type, ReduceOp::sum)
            .broadcast(output_of(task), call.count, call.root);
    }
    if (rank_ == call.root) copy_bytes(place(call.root, bytes), task.in, bytes);
    channel_.announce();
    if (rank_ == call.root) return;
    channel_.await(call.root);
    copy_bytes(task.out, place(call.root, bytes), bytes);
}

void ShmBackend::all_gather(const Task& task) {
    const Call& call = task.call;
    const ShmTurn turn(channel_, tcp_->begin(call));
    const std::size_t bytes = bytes_of(task);
    if (!is_small(bytes)) {
        return ShmPipeline(channel_, call.type, ReduceOp::sum)
            .all_gather(input_of(task), output_of(task), call.count);
    }
    exchange(task.in, bytes);
    if (call.count == 0) return;
    for (int rank = 0; rank < world_size_; ++rank) {
        copy_bytes(output_of(task) + static_cast<std::size_t>(rank) * bytes, place(rank, bytes), bytes);
    }
}

void ShmBackend::reduce_scatter(const Task& task) {
    const Call& call = task.call;
    const ShmTurn turn(channel_, tcp_->begin(call));
    const std::size_t part = bytes_of(task);
    const std::size_t whole = part * static_cast<std::size_t>(world_size_);
    if (!is_small(whole)) {
        return ShmPipeline(channel_, call.type, call.reduce)
            .reduce_scatter(input_of(task), output_of(task), call.count);
    }
    exchange(task.in, whole);
    if (call.count == 0) return;
    const std::size_t own = static_cast<std::size_t>(rank_) * part;
    reduce_in_order(call.type, call.reduce, world_size_, output_of(task), part,
                    [&](int rank) { return place(rank, whole) + own; });
}

void ShmBackend::barrier(const Task& task) {
    const ShmTurn turn(channel_, tcp_->begin(task.call));
    exchange(nullptr, 0);
}

void ShmBackend::run_over_tcp(const Task& task) {
    {
        const ShmTurn turn(channel_, tcp_->prepare(task.call));
        channel_.announce();
    }
    tcp_->run(task);
}

void ShmBackend::run(const Task& task) {
    switch (task.call.operation) {
        case Operation::all_reduce: return all_reduce(task);
        case Operation::broadcast: return broadcast(task);
        case Operation::all_gather: return all_gather(task);
        case Operation::reduce_scatter: return reduce_scatter(task);
        case Operation::barrier: return barrier(task);
        case Operation::send:
        case Operation::recv: return tcp_->run(task);
        case Operation::none:
        case Operation::join:
        case Operation::reduce:
        case Operation::gather:
        case Operation::scatter:
        case Operation::all_to_all:
        case Operation::split: return run_over_tcp(task);
    }
}

}  // namespace ddprun
