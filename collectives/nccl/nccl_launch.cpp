#include "collectives/nccl/nccl_launch.hpp"

#include <cstring>
#include <vector>

#include "collectives/float16.hpp"

namespace ddprun {
inline namespace detail {
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

// Also sends and receives without elements move one: a rank that only receives would not wait else.
NcclResult send(const NcclLaunch& on, const Call& call, const void* data, int peer) {
    const bool empty = call.count == 0;
    return on.nccl.send(empty ? on.token : data, empty ? 1 : call.count, nccl_type(call.type), peer,
                        on.handle, on.stream);
}

NcclResult recv(const NcclLaunch& on, const Call& call, void* data, int peer) {
    const bool empty = call.count == 0;
    return on.nccl.recv(empty ? on.token : data, empty ? 1 : call.count, nccl_type(call.type), peer,
                        on.handle, on.stream);
}

// Sends and receives that go on together; the first error counts.
class Together {
  public:
    explicit Together(const NcclLaunch& on) : on_(on) { keep(on.nccl.group_start()); }
    void send(const Call& call, const void* data, int peer) { keep(ddprun::send(on_, call, data, peer)); }
    void recv(const Call& call, void* data, int peer) { keep(ddprun::recv(on_, call, data, peer)); }
    NcclResult end() {
        keep(on_.nccl.group_end());
        return result_;
    }

  private:
    void keep(NcclResult result) noexcept {
        const bool settled = result_ != NcclResult::success && result_ != NcclResult::in_progress;
        if (!settled && result != NcclResult::success) result_ = result;
    }

    const NcclLaunch& on_;
    NcclResult result_ = NcclResult::success;
};

NcclResult gather(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const bool is_root = on.rank == call.root;
    if (on.nccl.gather != nullptr) {
        return on.nccl.gather(task.in, is_root ? task.out : nullptr, call.count, nccl_type(call.type),
                              call.root, on.handle, on.stream);
    }
    Together together(on);
    together.send(call, task.in, call.root);
    for (int rank = 0; is_root && rank < on.ranks; ++rank) {
        together.recv(call, output_part(task, rank), rank);
    }
    return together.end();
}

NcclResult scatter(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const bool is_root = on.rank == call.root;
    if (on.nccl.scatter != nullptr) {
        return on.nccl.scatter(is_root ? task.in : nullptr, task.out, call.count, nccl_type(call.type),
                               call.root, on.handle, on.stream);
    }
    Together together(on);
    for (int rank = 0; is_root && rank < on.ranks; ++rank) {
        together.send(call, input_part(task, rank), rank);
    }
    together.recv(call, task.out, call.root);
    return together.end();
}

NcclResult all_to_all(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    if (on.nccl.all_to_all != nullptr) {
        return on.nccl.all_to_all(task.in, task.out, call.count, nccl_type(call.type), on.handle, on.stream);
    }
    Together together(on);
    for (int rank = 0; rank < on.ranks; ++rank) {
        together.send(call, input_part(task, rank), rank);
        together.recv(call, output_part(task, rank), rank);
    }
    return together.end();
}

NcclResult group(const NcclLaunch& on, const std::vector<Task>& members) {
    Together together(on);
    for (const Task& member : members) {
        const Call& call = member.call;
        if (call.operation == Operation::send) {
            together.send(call, member.in, call.root);
        } else {
            together.recv(call, member.out, call.root);
        }
    }
    return together.end();
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
    const std::size_t count = call.count;
    if (count == 0 && !is_point_to_point(call.operation)) return meet(on);
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
        case Operation::send: return send(on, call, task.in, call.root);
        case Operation::recv: return recv(on, call, task.out, call.root);
        case Operation::group: return group(on, *task.members);
        case Operation::none:
        case Operation::join:
        case Operation::barrier:
        case Operation::split:
        case Operation::parts: break;
    }
    return meet(on);
}

}  // namespace detail
}  // namespace ddprun
