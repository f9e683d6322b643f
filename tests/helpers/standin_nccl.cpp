// NCCL's stand-in, for machines without a GPU: the functions of NCCL that ddprun uses, on host memory,
// between threads or processes; with faults on purpose (standin_script.hpp). It keeps to NCCL's rules more
// strictly than NCCL: see standin_comm.hpp; and a call without a context, or on memory that is not the
// device's, is an error.
//
// A collective without elements returns at once, as with NCCL; operations of one communicator run in the
// order of their calls, in whichever streams.
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "tests/helpers/standin_comm.hpp"
#include "tests/helpers/standin_cuda.hpp"

using namespace ddprun;
using namespace ddprun::standin;

namespace {

void send_bytes(Comm& comm, int peer, const void* data, std::size_t bytes) {
    comm.link->send(peer, data, bytes);
}

void recv_bytes(Comm& comm, int peer, void* data, std::size_t bytes) {
    const auto message = comm.link->recv(peer);
    // Other sizes than the peer's end in garbage or never, as with NCCL.
    if (!message || message->size() != bytes) return wait_for_abort(comm);
    if (bytes > 0) std::memcpy(data, message->data(), bytes);
}

// Every rank's `bytes` at `in`, by rank; empty ones when it was aborted.
std::vector<Bytes> from_all(Comm& comm, const void* in, std::size_t bytes) {
    for (int peer = 0; peer < comm.ranks; ++peer) send_bytes(comm, peer, in, bytes);
    std::vector<Bytes> all;
    for (int peer = 0; peer < comm.ranks; ++peer) {
        all.emplace_back(bytes);
        recv_bytes(comm, peer, all.back().data(), bytes);
    }
    return all;
}

const std::byte* part(const void* data, std::size_t bytes, int place) {
    return static_cast<const std::byte*>(data) + bytes * static_cast<std::size_t>(place);
}
std::byte* part(void* data, std::size_t bytes, int place) {
    return static_cast<std::byte*>(data) + bytes * static_cast<std::size_t>(place);
}

bool fits(const void* data, std::size_t bytes) { return bytes == 0 || is_device_memory(data, bytes); }

// The reduction of all ranks' `elements` elements, on each.
Bytes reduced(Comm& comm, const void* in, std::size_t elements, NcclType type, NcclOp op) {
    const std::size_t bytes = elements * size_of(type);
    Bytes own(bytes);
    std::memcpy(own.data(), in, bytes);
    const auto scaling = comm.scalings.find(static_cast<int>(op));
    if (scaling != comm.scalings.end()) scale(type, own, scaling->second);
    return reduce(type, scaling != comm.scalings.end() ? NcclOp::sum : op, from_all(comm, own.data(), bytes));
}

// Sends and receives between GroupStart and GroupEnd.
struct Group {
    int depth = 0;
    Comm* comm = nullptr;
    CudaStream stream = nullptr;
    std::vector<std::function<void(Comm&)>> sends;
    std::vector<std::function<void(Comm&)>> receives;
};

// The calling thread's, while it has one. A plain pointer: thread sanitizers cannot follow destructors at the
// end of threads.
Group*& open_group() {
    thread_local Group* group = nullptr;
    return group;
}

Group& group() {
    Group*& open = open_group();
    if (open == nullptr) open = new Group;
    return *open;
}

NcclResult close_group() {
    const std::unique_ptr<Group> taken(std::exchange(open_group(), nullptr));
    const Group closed = std::move(*taken);
    if (closed.comm == nullptr) return NcclResult::success;
    return operate(closed.comm, closed.stream, [=](Comm& comm) {
        for (const auto& send : closed.sends) send(comm);
        for (const auto& receive : closed.receives) receive(comm);
    });
}

NcclResult add_to_group(Comm* comm, CudaStream stream, bool sends, std::function<void(Comm&)> work) {
    Group& open = group();
    open.comm = comm;
    open.stream = stream;
    (sends ? open.sends : open.receives).push_back(std::move(work));
    return open.depth > 0 ? NcclResult::success : close_group();
}

}  // namespace

extern "C" {

NcclResult ncclGroupStart() {
    ++group().depth;
    return NcclResult::success;
}

NcclResult ncclGroupEnd() { return --group().depth > 0 ? NcclResult::success : close_group(); }

NcclResult ncclRedOpCreatePreMulSum(NcclOp* op, void* scalar, NcclType type, NcclScalarResidence residence,
                                    NcclHandle comm) {
    const Inside inside(*comm);
    if (residence != NcclScalarResidence::host_immediate) return NcclResult::invalid_argument;
    const int handle = 5 + static_cast<int>(comm->scalings.size());
    comm->scalings[handle] = scaling_of(type, scalar);
    *op = static_cast<NcclOp>(handle);
    return NcclResult::success;
}

// Kept: what is in a stream may still use it.
NcclResult ncclRedOpDestroy(NcclOp op, NcclHandle comm) {
    const Inside inside(*comm);
    return comm->scalings.contains(static_cast<int>(op)) ? NcclResult::success : NcclResult::invalid_argument;
}

NcclResult ncclAllReduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
                         NcclHandle comm, CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    if (!fits(in, bytes) || !fits(out, bytes)) return NcclResult::invalid_argument;
    if (count == 0) return NcclResult::success;
    return operate(comm, stream, [=](Comm& on) {
        const Bytes result = reduced(on, in, count, type, op);
        std::memcpy(out, result.data(), bytes);
    });
}

NcclResult ncclReduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, int root,
                      NcclHandle comm, CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    if (!fits(in, bytes) || (comm->rank == root && !fits(out, bytes))) return NcclResult::invalid_argument;
    return operate(comm, stream, [=](Comm& on) {
        const Bytes result = reduced(on, in, count, type, op);
        if (on.rank == root) std::memcpy(out, result.data(), bytes);
    });
}

NcclResult ncclReduceScatter(const void* in, void* out, std::size_t count, NcclType type, NcclOp op,
                             NcclHandle comm, CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    const auto ranks = static_cast<std::size_t>(comm->ranks);
    if (!fits(in, bytes * ranks) || !fits(out, bytes)) return NcclResult::invalid_argument;
    return operate(comm, stream, [=](Comm& on) {
        const Bytes result = reduced(on, in, count * ranks, type, op);
        std::memcpy(out, part(result.data(), bytes, on.rank), bytes);
    });
}

NcclResult ncclBroadcast(const void* in, void* out, std::size_t count, NcclType type, int root,
                         NcclHandle comm, CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    if (!fits(in, bytes) || !fits(out, bytes)) return NcclResult::invalid_argument;
    return operate(comm, stream, [=](Comm& on) {
        if (on.rank == root) {
            for (int peer = 0; peer < on.ranks; ++peer) send_bytes(on, peer, in, bytes);
        }
        recv_bytes(on, root, out, bytes);
    });
}

NcclResult ncclAllGather(const void* in, void* out, std::size_t count, NcclType type, NcclHandle comm,
                         CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    if (!fits(in, bytes) || !fits(out, bytes * static_cast<std::size_t>(comm->ranks))) {
        return NcclResult::invalid_argument;
    }
    return operate(comm, stream, [=](Comm& on) {
        const auto all = from_all(on, in, bytes);
        for (int rank = 0; rank < on.ranks; ++rank) {
            std::memcpy(part(out, bytes, rank), all[static_cast<std::size_t>(rank)].data(), bytes);
        }
    });
}

NcclResult ncclSend(const void* data, std::size_t count, NcclType type, int peer, NcclHandle comm,
                    CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    if (!fits(data, bytes)) return NcclResult::invalid_argument;
    return add_to_group(comm, stream, true, [=](Comm& on) { send_bytes(on, peer, data, bytes); });
}

NcclResult ncclRecv(void* data, std::size_t count, NcclType type, int peer, NcclHandle comm,
                    CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    if (!fits(data, bytes)) return NcclResult::invalid_argument;
    return add_to_group(comm, stream, false, [=](Comm& on) { recv_bytes(on, peer, data, bytes); });
}

#ifndef STANDIN_BEFORE_2_28

NcclResult ncclAlltoAll(const void* in, void* out, std::size_t count, NcclType type, NcclHandle comm,
                        CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    const std::size_t whole = bytes * static_cast<std::size_t>(comm->ranks);
    if (in == out || !fits(in, whole) || !fits(out, whole)) return NcclResult::invalid_argument;
    return operate(comm, stream, [=](Comm& on) {
        for (int peer = 0; peer < on.ranks; ++peer) send_bytes(on, peer, part(in, bytes, peer), bytes);
        for (int peer = 0; peer < on.ranks; ++peer) recv_bytes(on, peer, part(out, bytes, peer), bytes);
    });
}

NcclResult ncclGather(const void* in, void* out, std::size_t count, NcclType type, int root, NcclHandle comm,
                      CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    return operate(comm, stream, [=](Comm& on) {
        send_bytes(on, root, in, bytes);
        for (int peer = 0; on.rank == root && peer < on.ranks; ++peer) {
            recv_bytes(on, peer, part(out, bytes, peer), bytes);
        }
    });
}

NcclResult ncclScatter(const void* in, void* out, std::size_t count, NcclType type, int root, NcclHandle comm,
                       CudaStream stream) {
    const std::size_t bytes = count * size_of(type);
    return operate(comm, stream, [=](Comm& on) {
        for (int peer = 0; on.rank == root && peer < on.ranks; ++peer) {
            send_bytes(on, peer, part(in, bytes, peer), bytes);
        }
        recv_bytes(on, root, out, bytes);
    });
}

#endif

}  // extern "C"
