#include "tests/helpers/standin_comm.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/helpers/standin_capture.hpp"
#include "tests/helpers/standin_control.hpp"
#include "tests/helpers/standin_cuda.hpp"
#include "tests/helpers/standin_script.hpp"

namespace ddprun {
namespace standin {
namespace {

[[noreturn]] void die(const char* why) {
    std::fprintf(stderr, "stand-in: %s\n", why);
    std::abort();
}

// All that were ever made: steps of streams may still hold one that has ended.
struct Registry {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::unique_ptr<Comm>> comms;
    std::vector<Making> makings;
    int living = 0;
    int let_go = 0;  // how often
};

Registry& registry() {
    static const std::reference_wrapper<Registry> one(*new Registry);
    return one;
}

Comm* new_comm(const NcclConfig& config) {
    Making making{config, {}};
    const char* algorithms = std::getenv("NCCL_ALGO");
    std::string(algorithms != nullptr ? algorithms : "").copy(making.algorithms.data(), 63);
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.makings.push_back(making);
    ++all.living;
    return all.comms.emplace_back(std::make_unique<Comm>()).get();
}

void wait_until_let_go() {
    Registry& all = registry();
    std::unique_lock lock(all.mutex);
    all.changed.wait(lock, [&all, before = all.let_go] { return all.let_go > before; });
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

// In an operation's call, until the communicator is aborted: body() returns false then.
template <class Body>
bool waits_inside(Comm& comm, Body body) {
    comm.waiting = true;
    const bool done = body();
    comm.waiting = false;
    return done;
}

// As NCCL connects the ranks in the first operation: each waits for all others.
bool connect(Comm& comm) {
    return waits_inside(comm, [&] {
        for (int peer = 0; peer < comm.ranks; ++peer) comm.link->send(peer, nullptr, 0);
        for (int peer = 0; peer < comm.ranks; ++peer) {
            if (!comm.link->recv(peer)) return false;
        }
        return true;
    });
}

NcclResult end(Comm* comm) {
    std::unique_lock lock(comm->mutex);
    comm->aborted = true;
    comm->changed.notify_all();
    if (comm->link != nullptr) comm->link->stop();
    comm->changed.wait(lock, [&] { return comm->running == 0; });
    comm->gone = true;
    Registry& all = registry();
    const std::lock_guard inner(all.mutex);
    --all.living;
    all.changed.notify_all();
    return NcclResult::success;
}

}  // namespace

Inside::Inside(Comm& comm) : comm_(comm) {
    if (++comm_.inside > 1) die("two threads inside an NCCL communicator");
    if (comm_.gone) die("a call of an NCCL communicator that has ended");
}

void wait_for_abort(Comm& comm) {
    std::unique_lock lock(comm.mutex);
    comm.changed.wait(lock, [&] { return comm.aborted.load(); });
    throw Aborted{};
}

NcclResult operate(Comm* comm, CudaStream stream, std::function<void(Comm&)> work) {
    const Inside inside(*comm);
    if (!has_context()) return NcclResult::unhandled_cuda_error;
    const int number = ++comm->operations;
    const auto is = [&](const char* name) { return fault(name, comm->rank) == number; };
    if (is("dies")) std::raise(SIGKILL);
    if (is("call_fails")) return NcclResult::system_error;
    if (!std::exchange(comm->connected, true) && fault("connects", comm->rank) && !connect(*comm))
        return NcclResult::internal_error;
    if (is("stuck")) {
        waits_inside(*comm, [&] {
            std::unique_lock lock(comm->mutex);
            comm->changed.wait(lock, [&] { return comm->aborted.load(); });
            return false;
        });
        return NcclResult::internal_error;
    }
    if (is("stream_fails")) break_next_event(stream);
    if (is("async_error")) comm->async_error = true;
    if (is_captured(stream)) return NcclResult::success;
    const bool hangs = is("hang") || is("async_error");
    stream_of(stream).put([=, work = std::move(work), turn = comm->called++] {
        take_turn(*comm, turn, [&] { hangs ? wait_for_abort(*comm) : work(*comm); });
    });
    return NcclResult::success;
}

}  // namespace standin
}  // namespace ddprun

using namespace ddprun;
using namespace ddprun::standin;

extern "C" {

std::size_t standin_makings(Making* makings, std::size_t capacity) {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    std::copy_n(all.makings.begin(), std::min(capacity, all.makings.size()), makings);
    return all.makings.size();
}

int standin_living() {
    const std::lock_guard lock(registry().mutex);
    return registry().living;
}

void standin_let_go() {
    const std::lock_guard lock(registry().mutex);
    ++registry().let_go;
    registry().changed.notify_all();
}

void standin_await_none_living() {
    Registry& all = registry();
    std::unique_lock lock(all.mutex);
    all.changed.wait(lock, [&] { return all.living == 0; });
}

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
    *made = nullptr;
    const NcclConfig plain;
    if (config->magic != plain.magic || config->size != plain.size) return NcclResult::invalid_argument;
    if (!has_context() || fault("init_fails", rank)) return NcclResult::unhandled_cuda_error;
    // Read before anything is waited for: the next test changes the environment, perhaps while this call is
    // stuck.
    const bool hears_of_losses = fault("lost_peer", rank).has_value();
    const bool fails_at_the_end = fault("init_error", rank).has_value();
    const char* blocking = std::getenv("NCCL_COMM_BLOCKING");
    const bool does_not_block = blocking != nullptr && *blocking == '0';
    if (const auto delay = fault("init_dies", rank)) {
        // The moment of a death is by chance: there is no event for it.
        std::this_thread::sleep_for(std::chrono::milliseconds(*delay));
        std::raise(SIGKILL);
    }
    auto* comm = new_comm(*config);
    *made = comm;
    comm->rank = rank;
    comm->ranks = ranks;
    if (fault("init_stuck", rank)) wait_until_let_go();
    try {
        comm->link = new HubLink(id.bytes.data(), rank, ranks, [comm, hears_of_losses] {
            if (hears_of_losses) comm->lost = true;
        });
    } catch (const std::runtime_error&) {
        return NcclResult::remote_error;
    }
    if (does_not_block) return NcclResult::in_progress;
    if (config->blocking == 0) die("only blocking communicators are simulated");
    if (fails_at_the_end) return NcclResult::remote_error;
    return comm->link->wait_until_complete() ? NcclResult::success : NcclResult::internal_error;
}

NcclResult ncclCommGetAsyncError(NcclHandle comm, NcclResult* result) {
    const Inside inside(*comm);
    *result = comm->async_error || comm->lost ? NcclResult::remote_error : NcclResult::success;
    return NcclResult::success;
}

NcclResult ncclCommFinalize(NcclHandle comm) {
    const Inside inside(*comm);
    comm->link->say_final();
    if (fault("finalize_stuck", comm->rank)) {
        wait_until_let_go();
        return NcclResult::success;
    }
    return comm->link->wait_until_all_final() ? NcclResult::success : NcclResult::internal_error;
}

NcclResult ncclCommDestroy(NcclHandle comm) {
    const Inside inside(*comm);
    return end(comm);
}

#ifndef STANDIN_BROKEN

NcclResult ncclCommAbort(NcclHandle comm) {
    if (comm->gone) die("an abort of an NCCL communicator that has ended");
    if (comm->inside > 0 && !comm->waiting) die("an abort of an NCCL communicator with a thread inside");
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

}  // extern "C"
