#include "collectives/nccl_calls.hpp"

#include <cstring>

#include "collectives/float16.hpp"

namespace ddprun {
namespace {

template <class T>
NcclScalar scalar_of(T value) noexcept {
    NcclScalar scalar;
    std::memcpy(scalar.bytes.data(), &value, sizeof(value));
    return scalar;
}

// The ranks that wait for each other in a collective do so for an element of their own, too: NCCL returns at
// once from an operation without elements.
NcclResult meet(const NcclLaunch& on) {
    return on.nccl.all_reduce(on.token, on.token, 1, NcclType::uint8, NcclOp::max, on.handle, on.stream);
}

// Sends and receives that go on together; the first error counts.
class Group {
  public:
    Group(const NcclLaunch& on, const Call& call)
        : on_(on), type_(nccl_type(call.type)), count_(call.count), bytes_(call.count * size_of(call.type)) {
        keep(on.nccl.group_start());
    }
    // Part `place` of `data` to or from rank `peer`.
    void send(const void* data, int place, int peer) {
        keep(on_.nccl.send(static_cast<const std::byte*>(data) + offset(place), count_, type_, peer,
                           on_.handle, on_.stream));
    }
    void recv(void* data, int place, int peer) {
        keep(on_.nccl.recv(static_cast<std::byte*>(data) + offset(place), count_, type_, peer, on_.handle,
                           on_.stream));
    }
    NcclResult end() {
        keep(on_.nccl.group_end());
        return result_;
    }

  private:
    std::size_t offset(int place) const noexcept { return static_cast<std::size_t>(place) * bytes_; }
    void keep(NcclResult result) noexcept {
        const bool settled = result_ != NcclResult::success && result_ != NcclResult::in_progress;
        if (!settled && result != NcclResult::success) result_ = result;
    }

    const NcclLaunch& on_;
    NcclType type_;
    std::size_t count_;
    std::size_t bytes_;
    NcclResult result_ = NcclResult::success;
};

NcclResult gather(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const bool is_root = on.rank == call.root;
    if (on.nccl.gather != nullptr) {
        return on.nccl.gather(task.in, is_root ? task.out : nullptr, call.count, nccl_type(call.type),
                              call.root, on.handle, on.stream);
    }
    Group group(on, call);
    group.send(task.in, 0, call.root);
    for (int rank = 0; is_root && rank < on.ranks; ++rank) group.recv(task.out, rank, rank);
    return group.end();
}

NcclResult scatter(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const bool is_root = on.rank == call.root;
    if (on.nccl.scatter != nullptr) {
        return on.nccl.scatter(is_root ? task.in : nullptr, task.out, call.count, nccl_type(call.type),
                               call.root, on.handle, on.stream);
    }
    Group group(on, call);
    for (int rank = 0; is_root && rank < on.ranks; ++rank) group.send(task.in, rank, rank);
    group.recv(task.out, 0, call.root);
    return group.end();
}

NcclResult all_to_all(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    if (on.nccl.all_to_all != nullptr) {
        return on.nccl.all_to_all(task.in, task.out, call.count, nccl_type(call.type), on.handle, on.stream);
    }
    Group group(on, call);
    for (int rank = 0; rank < on.ranks; ++rank) {
        group.send(task.in, rank, rank);
        group.recv(task.out, rank, rank);
    }
    return group.end();
}

}  // namespace

NcclType nccl_type(DataType type) noexcept {
    switch (type) {
        case DataType::f32: return NcclType::float32;
        case DataType::f64: return NcclType::float64;
        case DataType::i32: return NcclType::int32;
        case DataType::i64: return NcclType::int64;
        case DataType::i8: return NcclType::int8;
        case DataType::u8: return NcclType::uint8;
        case DataType::u32: return NcclType::uint32;
        case DataType::u64: return NcclType::uint64;
        case DataType::f16: return NcclType::float16;
        case DataType::bf16: return NcclType::bfloat16;
    }
    return NcclType::uint8;
}

std::optional<NcclOp> nccl_op(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::sum:
        case ReduceOp::premul_sum: return NcclOp::sum;
        case ReduceOp::prod: return NcclOp::prod;
        case ReduceOp::min: return NcclOp::min;
        case ReduceOp::max: return NcclOp::max;
        case ReduceOp::avg: return NcclOp::avg;
        case ReduceOp::band:
        case ReduceOp::bor:
        case ReduceOp::bxor: break;
    }
    return std::nullopt;
}

NcclScalar nccl_scalar(DataType type, double value) noexcept {
    switch (type) {
        case DataType::f64: return scalar_of(value);
        case DataType::f16: return scalar_of(Float16(static_cast<float>(value)));
        case DataType::bf16: return scalar_of(BFloat16(static_cast<float>(value)));
        case DataType::f32:
        case DataType::i32:  // integers have no premul_sum
        case DataType::i64:
        case DataType::i8:
        case DataType::u8:
        case DataType::u32:
        case DataType::u64: break;
    }
    return scalar_of(static_cast<float>(value));
}

NcclResult enqueue(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const NcclType type = nccl_type(call.type);
    const bool point_to_point = is_point_to_point(call.operation);
    if (call.count == 0 && !point_to_point) return meet(on);
    const std::size_t count = call.count == 0 ? 1 : call.count;
    switch (call.operation) {
        case Operation::all_reduce:
            return on.nccl.all_reduce(task.in, task.out, count, type, on.op, on.handle, on.stream);
        case Operation::broadcast:
            return on.nccl.broadcast(task.out, task.out, count, type, call.root, on.handle, on.stream);
        case Operation::reduce:
            return on.nccl.reduce(task.in, on.rank == call.root ? task.out : nullptr, count, type, on.op,
                                  call.root, on.handle, on.stream);
        case Operation::all_gather:
            return on.nccl.all_gather(task.in, task.out, count, type, on.handle, on.stream);
        case Operation::reduce_scatter:
            return on.nccl.reduce_scatter(task.in, task.out, count, type, on.op, on.handle, on.stream);
        case Operation::gather: return gather(on, task);
        case Operation::scatter: return scatter(on, task);
        case Operation::all_to_all: return all_to_all(on, task);
        case Operation::send:
            return on.nccl.send(call.count == 0 ? on.token : task.in, count, type, call.root, on.handle,
                                on.stream);
        case Operation::recv:
            return on.nccl.recv(call.count == 0 ? on.token : task.out, count, type, call.root, on.handle,
                                on.stream);
        case Operation::none:
        case Operation::join:
        case Operation::barrier:
        case Operation::split:
        case Operation::allocate: break;
    }
    return meet(on);
}

}  // namespace ddprun
