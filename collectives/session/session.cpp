#include "collectives/session/session.hpp"

#include <fmt/core.h>

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/call/call.hpp"
#include "collectives/call/checked_task.hpp"
#include "rendezvous/store/store_host.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun::inline detail {

Executor::~Executor() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Executor::await_started() {
    if (open_.load(std::memory_order_acquire) == 0) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_.load(std::memory_order_acquire) == 0; });
}

std::vector<int> Executor::leave(Deadline deadline) {
    {
        std::unique_lock lock(mutex_);
        const auto none_open = [&] { return open_.load(std::memory_order_acquire) == 0; };
        if (!changed_.wait_until(lock, deadline, none_open)) {
            backend_->abort(kStartedNotEnded);
            throw error_of(*backend_->verdict(), "finalize");
        }
    }
    return backend_->leave(deadline);
}

void Executor::run(const Task& task) {
    await_started();
    carry_out(task);
}

SharedMemory Executor::allocate(std::size_t bytes) {
    await_started();
    return backend_->allocate(bytes);
}

Work Executor::start(const Task& task) {
    if (backend_->on_device()) return Work(backend_->start(task));
    if (task.stream != nullptr) {
        refuse(task.call.operation, "a stream was given, but this communicator's backend is not nccl");
    }
    auto state = make_in_process<ThreadWorkState>();
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) {
        try {
            thread_ = start_without_signals([this] { serve(); });
        } catch (const std::system_error& error) {
            throw CollectiveError(CollectiveErrorCode::system,
                                  fmt::format("no thread for operations that are started: {}", error.what()));
        }
    }
    changed_.wait(lock, [&] { return open_.load(std::memory_order_acquire) < kMaxStarted; });
    started_.push_back({task, state});
    open_.fetch_add(1, std::memory_order_acq_rel);
    lock.unlock();
    changed_.notify_all();
    return Work(std::move(state));
}

void Executor::serve() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopping_ || !started_.empty(); });
        if (started_.empty()) return;
        const Started current = std::move(started_.front());
        started_.pop_front();
        lock.unlock();
        std::optional<CollectiveError> error;
        try {
            carry_out(current.task);
        } catch (const CollectiveError& failed) {
            error = failed;
        } catch (const std::exception& failed) {
            // The others have begun: they must not wait for this rank.
            backend_->abort(failed.what());
            error = CollectiveError(CollectiveErrorCode::system, failed.what());
        }
        lock.lock();
        open_.fetch_sub(1, std::memory_order_acq_rel);
        current.state->end(std::move(error));
        changed_.notify_all();
    }
}

void Executor::carry_out(const Task& task) {
    const Call& call = task.call;
    const bool scales = is_reduction(call.operation) && call.reduce == ReduceOp::premul_sum &&
                        call.count > 0 && !backend_->on_device();
    if (!scales) return backend_->run(task);
    std::size_t count = call.count;
    if (call.operation == Operation::reduce_scatter) count *= static_cast<std::size_t>(world_size_);
    void* place = task.out;
    if (call.operation != Operation::all_reduce) {
        const std::size_t bytes = count * size_of(call.type);
        try {
            if (scaled_.size() < bytes) scaled_.resize(bytes);
        } catch (const std::bad_alloc&) {
            // The others have begun: they must not wait for this rank. Its own call throws this then, too.
            backend_->abort(fmt::format("no memory for {} bytes of premul_sum", bytes));
            return backend_->run(task);
        }
        place = scaled_.data();
    }
    scale(call.type, place, task.in, count, task.scalar);
    backend_->run({call, place, task.out});
}

MeetingRoom MeetingRoom::later() const {
    MeetingRoom room;
    room.host = host;
    room.reopen = reopen;
    return room;
}

void MeetingRoom::leave(std::chrono::milliseconds timeout) {
    try {
        if (departure) departure->say_gone();
        if (departure && host) departure->wait_for_others(timeout);
    } catch (const boost::system::system_error&) {
        // The store is gone before us; then nobody waits for this goodbye either.
    }
    departure.reset();
    store.reset();
    host.reset();
}

Session::~Session() {
    const bool healthy = executor && !executor->ended();
    executor.reset();
    room.leave(healthy ? options.leave_timeout : std::chrono::milliseconds(0));
}

void Session::end_executor() {
    std::unique_ptr<Executor> ending;  // outlives the lock
    const std::lock_guard lock(end_mutex);
    ending = std::move(executor);
    lifeline = nullptr;
}

void Session::finalize(std::chrono::milliseconds timeout) {
    const Deadline deadline = Deadline::clock::now() + timeout;
    std::vector<int> missing;
    std::exception_ptr failure;
    try {
        missing = executor->leave(deadline);
    } catch (const CollectiveError&) {
        failure = std::current_exception();
    }
    end_executor();
    const bool healthy = !failure && missing.empty();
    room.leave(healthy ? time_until(deadline) : std::chrono::milliseconds(0));
    if (failure) std::rethrow_exception(failure);
    if (missing.empty()) return;
    throw CollectiveError(CollectiveErrorCode::timed_out,
                          fmt::format("finalize: these ranks have not come to theirs within {} ms: {}",
                                      timeout.count(), list_of_ranks(missing)),
                          missing, "finalize");
}

void SoloBackend::run(const Task& task) {
    {
        const std::lock_guard lock(mutex_);
        Call call = task.call;
        call.sequence = ++sequence_;
        if (verdict_) throw error_of(*verdict_, call);
    }
    const Operation operation = task.call.operation;
    check(operation != Operation::none && operation != Operation::join && !is_point_to_point(operation),
          "no operation for a rank alone");
    copy_bytes(task.out, task.in, bytes_of(task));
}

std::vector<int> SoloBackend::leave(Deadline) {
    if (const auto ended = verdict()) throw error_of(*ended, "finalize");
    return {};
}

void SoloBackend::abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!verdict_) verdict_ = abort_verdict(0, reason);
}

std::optional<Verdict> SoloBackend::verdict() const {
    const std::lock_guard lock(mutex_);
    return verdict_;
}

}  // namespace ddprun::inline detail
