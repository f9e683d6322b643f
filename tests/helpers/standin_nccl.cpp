// NCCL's stand-in, for machines without a GPU: the functions of NCCL that ddprun uses, on host memory,
// between threads or processes; with faults on purpose (standin_script.hpp). It keeps to NCCL's rules more
// strictly than NCCL: two threads inside a communicator end the process; a call without a context, on memory
// that is not the device's, or before the last one was found done, is an error.
//
// A collective without elements returns at once, as with NCCL; operations of one communicator run in the
// order of their calls, in whichever streams.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "collectives/gpu_abi.hpp"
#include "tests/helpers/standin_cuda.hpp"
#include "tests/helpers/standin_hub.hpp"
#include "tests/helpers/standin_reduce.hpp"
#include "tests/helpers/standin_script.hpp"

using namespace ddprun;
using namespace ddprun::standin;

struct ddprun::NcclOpaque {
    int rank = 0;
    int ranks = 0;
    std::unique_ptr<HubLink> link;
    std::atomic<int> inside{0};
    std::atomic<bool> lost{false};
    std::atomic<bool> async_error{false};
    std::atomic<bool> aborted{false};
    int operations = 0;
    // In the background: so often it is found in progress, then `later` is done. Below 0: for ever.
    int looks = 0;
    bool in_background = false;
    bool finalizing = false;
    std::function<void()> later;
    std::map<int, Scaling> scalings;
    // Operations of all streams run in the order of their calls.
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t called = 0;
    std::uint64_t ran = 0;
    int running = 0;
};

namespace {

using Comm = NcclOpaque;

// One thread at a time.
class Inside {
  public:
    explicit Inside(Comm& comm) : comm_(comm) {
        if (++comm_.inside > 1) {
            std::fprintf(stderr, "stand-in: two threads inside an NCCL communicator\n");
            std::abort();
        }
    }
    ~Inside() { --comm_.inside; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    Comm& comm_;
};

// Does `work` now, or when it has been asked for often enough.
NcclResult in_background(Comm& comm, std::optional<int> looks, std::function<void()> work) {
    if (!looks) {
        work();
        return NcclResult::success;
    }
    comm.in_background = true;
    comm.looks = *looks;
    comm.later = std::move(work);
    return NcclResult::in_progress;
}

// Ends an operation at once: from then on it touches no memory.
struct Aborted {};

[[noreturn]] void wait_for_abort(Comm& comm) {
    std::unique_lock lock(comm.mutex);
    comm.changed.wait(lock, [&] { return comm.aborted.load(); });
    throw Aborted{};
}

// Runs in a stream, when its turn has come.
void take_turn(Comm& comm, std::uint64_t turn, const std::function<void()>& work) {
    std::unique_lock lock(comm.mutex);
    comm.changed.wait(lock, [&] { return comm.aborted.load() || comm.ran == turn; });
    if (comm.aborted) return;
    ++comm.running;
    lock.unlock();
    try {
        work();
    } catch (const Aborted&) {
    }
    lock.lock();
    --comm.running;
    ++comm.ran;
    comm.changed.notify_all();
}

// An operation: what it does to the data, with the faults around it.
NcclResult operate(Comm* comm, CudaStream stream, std::function<void(Comm&)> work) {
    const Inside inside(*comm);
    if (!has_context()) return NcclResult::unhandled_cuda_error;
    if (comm->in_background) return NcclResult::invalid_usage;
    const int number = ++comm->operations;
    const auto is = [&](const char* name) { return fault(name, comm->rank) == number; };
    if (is("call_fails")) return NcclResult::system_error;
    const bool hangs = is("hang") || is("async_error");
    const bool breaks = is("stream_fails");
    const bool reports = is("async_error");
    auto looks = fault("in_progress", comm->rank);
    if (is("stuck")) looks = -1;
    return in_background(*comm, looks, [=, work = std::move(work)] {
        if (breaks) break_next_event(stream);
        if (reports) comm->async_error = true;
        stream_of(stream).put([=, turn = comm->called++] {
            take_turn(*comm, turn, [&] { hangs ? wait_for_abort(*comm) : work(*comm); });
        });
    });
}

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

Group& group() {
    thread_local Group one;
    return one;
}

NcclResult close_group() {
    Group closed = std::move(group());
    group() = {};
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

// As far as the others are needed for what goes on in the background.
bool peers_are_there(Comm& comm) { return comm.finalizing ? comm.link->all_final() : comm.link->complete(); }

// All that were ever made: steps of streams may still hold one that has ended.
struct Registry {
    std::mutex mutex;
    std::vector<std::unique_ptr<Comm>> comms;
};

Comm* new_comm() {
    static const std::reference_wrapper<Registry> one(*new Registry);
    Registry& registry = one;
    const std::lock_guard lock(registry.mutex);
    return registry.comms.emplace_back(std::make_unique<Comm>()).get();
}

NcclResult end(Comm* comm) {
    std::unique_lock lock(comm->mutex);
    comm->aborted = true;
    comm->changed.notify_all();
    comm->link->stop();
    comm->changed.wait(lock, [&] { return comm->running == 0; });
    return NcclResult::success;
}

}  // namespace

extern "C" {

NcclResult ncclGetVersion(int* version) {
    *version = fault("version").value_or(22809);
    return NcclResult::success;
}

NcclResult ncclGetUniqueId(NcclUniqueId* id) {
    *id = {};
    open_hub().copy(id->bytes.data(), id->bytes.size() - 1);
    return NcclResult::success;
}

NcclResult ncclCommInitRankConfig(NcclHandle* made, int ranks, NcclUniqueId id, int rank,
                                  NcclConfig* config) {
    const NcclConfig plain;
    if (config->magic != plain.magic || config->size != plain.size || config->blocking != 0) {
        return NcclResult::invalid_argument;
    }
    if (!has_context() || fault("init_fails", rank)) return NcclResult::unhandled_cuda_error;
    auto* comm = new_comm();
    *made = comm;
    comm->rank = rank;
    comm->ranks = ranks;
    comm->link = std::make_unique<HubLink>(id.bytes.data(), rank, ranks, [comm] {
        if (fault("lost_peer", comm->rank)) comm->lost = true;
    });
    if (fault("init_error", rank)) comm->async_error = true;
    const int looks = fault("init_stuck", rank) ? -1 : fault("in_progress", rank).value_or(1);
    return in_background(*comm, looks, [] {});
}

NcclResult ncclCommGetAsyncError(NcclHandle comm, NcclResult* result) {
    const Inside inside(*comm);
    *result = NcclResult::success;
    if (comm->async_error || comm->lost) {
        *result = NcclResult::remote_error;
    } else if (comm->in_background && (comm->looks != 0 || !peers_are_there(*comm))) {
        if (comm->looks > 0) --comm->looks;
        *result = NcclResult::in_progress;
    } else if (comm->in_background) {
        comm->in_background = false;
        comm->later();
    }
    return NcclResult::success;
}

NcclResult ncclCommFinalize(NcclHandle comm) {
    const Inside inside(*comm);
    comm->finalizing = true;
    comm->link->say_final();
    const int looks = fault("finalize_stuck", comm->rank) ? -1 : fault("in_progress", comm->rank).value_or(1);
    return in_background(*comm, looks, [] {});
}

NcclResult ncclCommDestroy(NcclHandle comm) {
    const Inside inside(*comm);
    return end(comm);
}

#ifndef STANDIN_BROKEN

NcclResult ncclCommAbort(NcclHandle comm) {
    const Inside inside(*comm);
    if (fault("abort_hangs", comm->rank)) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable never;
        never.wait(lock, [] { return false; });
    }
    return end(comm);
}

#endif

const char* ncclGetErrorString(NcclResult result) {
    switch (result) {
        case NcclResult::success: return "no error";
        case NcclResult::unhandled_cuda_error: return "unhandled cuda error";
        case NcclResult::system_error: return "unhandled system error";
        case NcclResult::internal_error: return "internal error";
        case NcclResult::invalid_argument: return "invalid argument";
        case NcclResult::invalid_usage: return "invalid usage";
        case NcclResult::remote_error: return "remote process exited or there was a network error";
        case NcclResult::in_progress: return "NCCL operation in progress";
    }
    return "unknown result code";
}

const char* ncclGetLastError(NcclHandle) { return "the stand-in's last words\n"; }

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
