#include "collectives/shm_backend.hpp"

#include "collectives/shm_pipeline.hpp"
#include "collectives/shm_reduce.hpp"

namespace ddprun {
namespace {

std::byte* bytes_of(void* data) { return static_cast<std::byte*>(data); }
const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }

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

void ShmBackend::all_reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
    const ShmTurn turn(channel_, tcp_->begin({Operation::all_reduce, type, op, -1, count}));
    const std::size_t bytes = count * size_of(type);
    if (!is_small(bytes))
        return ShmPipeline(channel_, type, op).all_reduce(bytes_of(in), bytes_of(out), count);
    exchange(in, bytes);
    if (count == 0) return;
    reduce_in_order(type, op, world_size_, bytes_of(out), bytes,
                    [&](int rank) { return place(rank, bytes); });
}

void ShmBackend::broadcast(void* data, std::size_t count, DataType type, int root) {
    const ShmTurn turn(channel_, tcp_->begin({Operation::broadcast, type, ReduceOp::sum, root, count}));
    const std::size_t bytes = count * size_of(type);
    if (!is_small(bytes)) {
        return ShmPipeline(channel_, type, ReduceOp::sum).broadcast(bytes_of(data), count, root);
    }
    if (rank_ == root) copy_bytes(place(root, bytes), data, bytes);
    channel_.announce();
    if (rank_ == root) return;
    channel_.await(root);
    copy_bytes(data, place(root, bytes), bytes);
}

void ShmBackend::all_gather(const void* in, void* out, std::size_t count, DataType type) {
    const ShmTurn turn(channel_, tcp_->begin({Operation::all_gather, type, ReduceOp::sum, -1, count}));
    const std::size_t bytes = count * size_of(type);
    if (!is_small(bytes)) {
        return ShmPipeline(channel_, type, ReduceOp::sum).all_gather(bytes_of(in), bytes_of(out), count);
    }
    exchange(in, bytes);
    if (count == 0) return;
    for (int rank = 0; rank < world_size_; ++rank) {
        copy_bytes(bytes_of(out) + static_cast<std::size_t>(rank) * bytes, place(rank, bytes), bytes);
    }
}

void ShmBackend::reduce_scatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
    const ShmTurn turn(channel_, tcp_->begin({Operation::reduce_scatter, type, op, -1, count}));
    const std::size_t part = count * size_of(type);
    const std::size_t whole = part * static_cast<std::size_t>(world_size_);
    if (!is_small(whole)) {
        return ShmPipeline(channel_, type, op).reduce_scatter(bytes_of(in), bytes_of(out), count);
    }
    exchange(in, whole);
    if (count == 0) return;
    const std::size_t own = static_cast<std::size_t>(rank_) * part;
    reduce_in_order(type, op, world_size_, bytes_of(out), part,
                    [&](int rank) { return place(rank, whole) + own; });
}

void ShmBackend::barrier() {
    const ShmTurn turn(channel_, tcp_->begin({Operation::barrier}));
    exchange(nullptr, 0);
}

void ShmBackend::send(const void* data, std::size_t count, DataType type, int peer) {
    tcp_->send(data, count, type, peer);
}

void ShmBackend::recv(void* data, std::size_t count, DataType type, int peer) {
    tcp_->recv(data, count, type, peer);
}

void ShmBackend::announce(const Call& call) {
    const ShmTurn turn(channel_, tcp_->prepare(call));
    channel_.announce();
}

void ShmBackend::reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op, int root) {
    announce({Operation::reduce, type, op, root, count});
    tcp_->reduce(in, out, count, type, op, root);
}

void ShmBackend::gather(const void* in, void* out, std::size_t count, DataType type, int root) {
    announce({Operation::gather, type, ReduceOp::sum, root, count});
    tcp_->gather(in, out, count, type, root);
}

void ShmBackend::scatter(const void* in, void* out, std::size_t count, DataType type, int root) {
    announce({Operation::scatter, type, ReduceOp::sum, root, count});
    tcp_->scatter(in, out, count, type, root);
}

void ShmBackend::all_to_all(const void* in, void* out, std::size_t count, DataType type) {
    announce({Operation::all_to_all, type, ReduceOp::sum, -1, count});
    tcp_->all_to_all(in, out, count, type);
}

void ShmBackend::exchange(const void* in, void* out, std::size_t bytes) {
    announce({Operation::split, DataType::u8, ReduceOp::sum, -1, bytes});
    tcp_->exchange(in, out, bytes);
}

}  // namespace ddprun
