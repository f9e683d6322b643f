#include "collectives/session/executor.hpp"

#include <fmt/core.h>

#include <exception>
#include <functional>
#include <new>
#include <utility>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/call/backend.hpp"
#include "collectives/call/call.hpp"
#include "collectives/call/checked_task.hpp"
#include "collectives/call/run_beside.hpp"
#include "collectives/call/task.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/error.hpp"
#include "collectives/messages/transfers.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// A thread that has carried out what was started stays so long where it is: waking it costs less than another
// one.
constexpr std::chrono::milliseconds kLinger{1};

void refuse_parts(const Task& task) {
    if (task.parts) refuse(task.call.operation, "NCCL moves no parts; use a group of sends and receives");
}

}  // namespace

// ThreadWorkState: the state of an operation that a thread of this process carries out.
class ThreadWorkState final : public WorkState {
  public:
    // ThreadWorkState borrows the executor until the end.
    explicit ThreadWorkState(Executor& executor) : executor_(executor) {}

    // Ends the operation; once, by the thread that carries it out.
    void end(std::optional<CollectiveError> error) {
        std::vector<std::function<void()>> calls;
        {
            const std::lock_guard lock(mutex_);
            error_ = std::move(error);
            ended_ = true;
            calls.swap(calls_);
        }
        changed_.notify_all();
        for (auto& done : calls) run_beside(std::move(done));
    }

    void then(std::function<void()> done) override {
        {
            const std::lock_guard lock(mutex_);
            if (!ended_) return calls_.push_back(std::move(done));
        }
        done();
    }

    bool ended() override {
        const std::lock_guard lock(mutex_);
        return ended_;
    }

    // wait_until() without a deadline helps: the waiting thread carries out what no thread has begun yet.
    bool wait_until(Deadline deadline) override;

    std::optional<CollectiveError> error() override {
        const std::lock_guard lock(mutex_);
        return error_;
    }

  private:
    Executor& executor_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::optional<CollectiveError> error_;
    std::vector<std::function<void()>> calls_;
};

bool ThreadWorkState::wait_until(Deadline deadline) {
    std::unique_lock lock(mutex_);
    // As long as this has not ended the executor is there.
    while (deadline == Deadline::max() && !ended_ && executor_.help(lock)) lock.lock();
    const auto has_ended = [&] { return ended_; };
    if (deadline != Deadline::max()) return changed_.wait_until(lock, deadline, has_ended);
    changed_.wait(lock, has_ended);
    return true;
}

Executor::Executor(std::unique_ptr<Backend> backend, int world_size)
    : backend_(std::move(backend)), world_size_(world_size) {}

void Executor::send_by(std::unique_ptr<Transfers> transfers) { transfers_ = std::move(transfers); }

Executor::~Executor() {
    // Also one that a waiting thread carries out comes before it.
    await_turn(next_++, Deadline::max());
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !served_; });
}

bool Executor::await_turn(Ticket ticket, Deadline deadline) {
    const auto has_come = [&] { return serving_ == ticket; };
    if (has_come()) return true;
    ++waiting_;
    std::unique_lock lock(mutex_);
    if (deadline == Deadline::max()) {
        changed_.wait(lock, has_come);
    } else {
        changed_.wait_until(lock, deadline, has_come);
    }
    --waiting_;
    return has_come();
}

void Executor::pass_on(Ticket ticket) {
    serving_ = ticket + 1;
    if (waiting_ == 0) return;
    // Who has looked and does not sleep yet would miss it.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
}

void Executor::refuse_if_left(Operation operation) const {
    if (left_) refuse(operation, kFinalized);
}

void Executor::close(Messenger& messenger, Deadline deadline) {
    const Turn turn(*this, next_++);
    messenger.close(deadline);
}

std::vector<int> Executor::leave(Deadline deadline, Messenger* messenger) {
    const Ticket ticket = next_++;
    const bool in_time = await_turn(ticket, deadline);
    if (!in_time) backend_->abort(kStartedNotEnded);
    const Turn turn(*this, ticket);
    left_ = true;
    if (messenger != nullptr) messenger->close(deadline);
    if (!in_time) throw error_of(*backend_->verdict(), "finalize");
    return backend_->leave(deadline);
}

void Executor::run(const Task& task) {
    const Turn turn(*this, next_++);
    carry_out(task);
}

Work Executor::start(const Task& task) {
    if (backend_->on_device()) {
        refuse_parts(task);
        const Turn turn(*this, next_++);
        refuse_if_left(task.call.operation);
        return Work(backend_->start(task));
    }
    if (task.stream != nullptr) {
        refuse(task.call.operation, "a stream was given, but this communicator's backend is not nccl");
    }
    auto state = make_in_process<ThreadWorkState>(*this);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_.size() < kMaxStarted; });
    started_.push_back({task, state, next_++});
    const bool served = std::exchange(served_, true);
    lock.unlock();
    served ? changed_.notify_all() : run_beside([this] { serve(); });
    return Work(std::move(state));
}

void Executor::perform(const Started& started) {
    std::optional<CollectiveError> error;
    try {
        carry_out(started.task);
    } catch (const CollectiveError& failed) {
        error = failed;
    } catch (const std::exception& failed) {
        // The others have begun: they must not wait for this rank.
        backend_->abort(failed.what());
        error = CollectiveError(CollectiveErrorCode::system, failed.what());
    }
    started.state->end(std::move(error));
}

bool Executor::help(std::unique_lock<std::mutex>& waiter) {
    std::unique_lock lock(mutex_);
    if (started_.empty() || started_.front().ticket != serving_) return false;
    const Started first = std::move(started_.front());
    started_.pop_front();
    lock.unlock();
    waiter.unlock();
    perform(first);
    lock.lock();
    // Under the lock to the end: the executor is destroyed when the last turn is over and this is free.
    serving_ = first.ticket + 1;
    changed_.notify_all();
    return true;
}

void Executor::serve() {
    std::unique_lock lock(mutex_);
    const auto is_called = [this] { return stopping_ || !started_.empty(); };
    while (changed_.wait_for(lock, kLinger, is_called) && !started_.empty()) {
        const Started current = std::move(started_.front());
        started_.pop_front();
        lock.unlock();
        {
            const Turn turn(*this, current.ticket);
            perform(current);
        }
        lock.lock();
        changed_.notify_all();
    }
    served_ = false;
    changed_.notify_all();
}

void Executor::carry_out(const Task& task) {
    refuse_if_left(task.call.operation);
    const Call& call = task.call;
    if (transfers_ && is_point_to_point(call.operation)) return transfers_->run(task);
    if (backend_->on_device()) {
        refuse_parts(task);
        return backend_->run(task);
    }
    if (call.operation == Operation::all_reduce && task.parts)
        return reduce_parts(task, scratch(kMostJoined), [this](const Task& one) { carry_out(one); });
    const bool scales = is_reduction(call.operation) && call.reduce == ReduceOp::premul_sum;
    if (!scales && !task.parts) return backend_->run(task);
    const Task ready = agreed(task);
    backend_->run(scales && ready.call.count > 0 ? multiplied(ready) : ready);
}

Task Executor::agreed(Task task) {
    if (!task.parts || !task.parts->counted) return task;
    const std::vector<std::uint64_t> own = counts_of(*task.parts);
    std::vector<std::uint64_t> all(own.size() * static_cast<std::size_t>(world_size_));
    const Call call{Operation::parts, DataType::u64, ReduceOp::sum, static_cast<int>(task.call.operation),
                    own.size()};
    backend_->run({call, own.data(), all.data(), 1, nullptr, nullptr, task.timeout});
    task.call.count = agreed_count(task.call, all, world_size_);
    return task;
}

std::byte* Executor::scratch(std::size_t bytes) {
    try {
        if (scratch_.size() < bytes) scratch_.resize(bytes);
    } catch (const std::bad_alloc&) {
        // The others have begun: they must not wait for this rank. Its own call throws this then, too.
        backend_->abort(fmt::format("no memory for {} bytes", bytes));
        return nullptr;
    }
    return scratch_.data();
}

Task Executor::multiplied(Task task) {
    const bool whole = task.call.operation == Operation::reduce_scatter;
    const std::size_t parts = whole ? static_cast<std::size_t>(world_size_) : 1;
    void* place = task.out;
    if (task.call.operation != Operation::all_reduce) {
        place = scratch(parts * bytes_of(task));
        if (place == nullptr) return task;
    }
    const Task from = task;
    task.in = place;
    task.scalar = 1;
    if (!from.parts) {
        scale(task.call.type, place, from.in, parts * task.call.count, from.scalar);
        return task;
    }
    Parts moved = *from.parts;
    for (std::size_t i = 0; i < moved.in.size(); ++i) {
        void* to = scratch_.data() + i * bytes_of(task);
        scale(task.call.type, to, moved.in[i].data, moved.in[i].count, from.scalar);
        moved.in[i].data = to;
    }
    task.parts = std::make_shared<const Parts>(std::move(moved));
    return task;
}

}  // namespace detail
}  // namespace ddprun
