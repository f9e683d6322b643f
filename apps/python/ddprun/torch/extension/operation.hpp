// An Operation is a torch Work that stands for what the library carries out.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "apps/python/ddprun/torch/extension/failure.hpp"
#include "collectives/ddprun_collectives.h"

namespace ddprun {
inline namespace app {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;

// Task is what an operation asks the library for, and the tensors that it has until its end.
struct Task {
    Task() = default;
    Task(std::vector<Tensors> results, std::optional<Tensors> shown)
        : outputs(std::move(results)), inputs(std::move(shown)) {}

    // Returns the tensor, or a copy of it, as one block of memory that the library may read while it writes
    // tensors of a list.
    at::Tensor reads(const at::Tensor& tensor) {
        const bool as_it_is = is_block(tensor) && !overlaps_list(tensor);
        return keep(as_it_is ? tensor : tensor.clone(at::MemoryFormat::Contiguous));
    }
    // Returns the block into which the library writes; if that is a copy, the tensor gets it at the end.
    // `reads_it`: the library also reads the tensor's values.
    at::Tensor writes(const at::Tensor& tensor, bool reads_it = false) {
        if (is_block(tensor)) return keep(tensor);
        at::Tensor block = reads_it ? tensor.clone(at::MemoryFormat::Contiguous)
                                    : at::empty(tensor.sizes(),
                                                tensor.options().memory_format(at::MemoryFormat::Contiguous));
        copies.emplace_back(tensor, block);
        return block;
    }
    // Returns the block for one tensor of a list, which may overlap others of the list: where two are written
    // to the same memory, the later in the list stays.
    at::Tensor writes_of_list(const at::Tensor& tensor, bool reads_it = false) {
        if (!is_block(tensor) || !overlaps_list(tensor)) return list_.emplace_back(writes(tensor, reads_it));
        copies.emplace_back(tensor, reads_it ? tensor.clone() : at::empty_like(tensor));
        return copies.back().second;
    }
    // Returns lists of tensors as a request's parts, in bytes, or in `width` units an element. Lists that are
    // written are to be made first.
    const ddprun_part* writes_all(const Tensors& tensors) {
        return parts(tensors, 0, [this](const at::Tensor& tensor) { return writes_of_list(tensor); });
    }
    const ddprun_part* changes_all(const Tensors& tensors, size_t width) {
        return parts(tensors, width,
                     [this](const at::Tensor& tensor) { return writes_of_list(tensor, true); });
    }
    const ddprun_part* reads_all(const Tensors& tensors, size_t width = 0) {
        return parts(tensors, width, [this](const at::Tensor& tensor) { return reads(tensor); });
    }
    at::Tensor keep(at::Tensor tensor) {
        held.push_back(tensor);
        return tensor;
    }
    static bool is_block(const at::Tensor& tensor) {
        return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
    }

    std::vector<ddprun_request> requests;  // carried out in this order
    Tensors held;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // to and from, when it has ended well
    std::vector<Tensors> outputs;                           // what the caller sees as the result
    std::optional<Tensors> inputs;                          // what a profiler shows

  private:
    template <class Block>
    const ddprun_part* parts(const Tensors& tensors, size_t width, Block block) {
        auto& made = parts_.emplace_back();
        for (const at::Tensor& tensor : tensors) {
            const at::Tensor each = block(tensor);
            const size_t units = width > 0 ? width : each.element_size();
            made.push_back({each.data_ptr(), static_cast<size_t>(each.numel()) * units});
        }
        return made.data();
    }
    bool overlaps_list(const at::Tensor& tensor) const {
        const auto* begin = static_cast<const char*>(tensor.data_ptr());
        return std::any_of(list_.begin(), list_.end(), [&](const at::Tensor& other) {
            const auto* others = static_cast<const char*>(other.data_ptr());
            return begin < others + other.nbytes() && others < begin + tensor.nbytes();
        });
    }

    Tensors list_;  // blocks of lists that are written
    std::vector<std::vector<ddprun_part>> parts_;
};

// Calls counts the calls that the library makes on threads of its own for the works of one group. A call may
// need Python's lock, so none may be left when Python ends.
class Calls {
  public:
    // Runs body() as one of the calls; begin() has counted it.
    template <class Body>
    void run(Body body) {
        ++depth();
        body();
        --depth();
        const std::lock_guard lock(mutex_);
        --under_way_;
        ended_.notify_all();
    }
    void begin() {
        const std::lock_guard lock(mutex_);
        ++under_way_;
    }
    // Returns false where Python ends.
    bool begin_unless_closed() {
        const std::lock_guard lock(mutex_);
        if (!closed_) ++under_way_;
        return !closed_;
    }
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    // Waits until no call is under way, `limit` at most; returns at once where the caller is itself one of
    // the calls.
    void wait(Milliseconds limit) {
        std::unique_lock lock(mutex_);
        if (depth() == 0) ended_.wait_for(lock, limit, [this] { return under_way_ == 0; });
    }

  private:
    static int& depth() {
        thread_local int calls = 0;
        return calls;
    }

    std::mutex mutex_;
    std::condition_variable ended_;
    int under_way_ = 0;
    bool closed_ = false;
};

// Flight is what the library uses until the end of what was started. The backend has it, too, in case that no
// caller waits.
struct Flight {
    Flight() = default;
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;
    ~Flight() {
        for (ddprun_work* work : works) ddprun_work_release(work);
    }
    // Returns true if all works have ended; they end in their order.
    bool landed() const { return works.empty() || ddprun_work_test(works.back()) == 1; }

    std::vector<ddprun_work*> works;
    Tensors held;
    std::shared_ptr<Calls> calls;  // of its group
};

class Operation final : public c10d::Work {
  public:
    Operation(int rank, c10d::OpType type, const char* title, uint64_t sequence, Milliseconds timeout,
              Task task)
        : Work(rank, type, title, task.inputs),
          title_(title),
          sequence_(sequence),
          timeout_(timeout),
          task_(std::move(task)),
          flight_(std::make_shared<Flight>()) {
        flight_->held = std::move(task_.held);
        for (const auto& copy : task_.copies) flight_->held.push_back(copy.second);
    }

    const Task& task() const { return task_; }
    // Returns the flight, to which what is started is added, before the operation is known to others.
    const std::shared_ptr<Flight>& flight() const { return flight_; }
    // Ends the operation in the calling thread, as `failure` says.
    void end(std::exception_ptr failure) { settle(std::move(failure)); }

    bool isCompleted() override {
        if (settled_.load(std::memory_order_acquire)) return true;
        if (!flight_->landed()) return false;
        settle(outcome());
        return true;
    }

    bool isSuccess() const override { return const_cast<Operation*>(this)->isCompleted() && !exception_; }

    std::exception_ptr exception() const override { return isSuccess() ? nullptr : exception_; }

    bool wait(Milliseconds limit = kNoTimeout) override {
        if (!settled_.load(std::memory_order_acquire)) {
            if (limit > kNoTimeout) {
                wait_at_most(limit);
            } else {
                settle(outcome());
            }
        }
        if (exception_) std::rethrow_exception(exception_);
        return true;
    }

    void synchronize() override { wait(kNoTimeout); }

    Tensors result() override {
        TORCH_CHECK(
            isCompleted(),
            "Work needs to be completed before calling result(). Should call wait() before result().");
        TORCH_CHECK(task_.outputs.size() <= 1,
                    "work result does not support list of lists, use .getFuture() and value()");
        return task_.outputs.empty() ? Tensors() : task_.outputs.front();
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
        auto list = c10::ListType::create(c10::TensorType::get());
        return future_of(future_, task_.outputs.size() > 1 ? c10::ListType::create(list) : list,
                         [](Operation& self, c10::ivalue::Future& future) {
                             if (self.exception_) return future.setError(self.exception_);
                             const auto& outputs = self.task_.outputs;
                             if (outputs.size() > 1) return future.markCompleted(c10::IValue(outputs));
                             future.markCompleted(c10::IValue(outputs.empty() ? Tensors() : outputs.front()));
                         });
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
        return future_of(result_, c10::IntType::get(), [](Operation& self, c10::ivalue::Future& future) {
            future.markCompleted(c10::IValue(static_cast<int64_t>(self.how())));
        });
    }

    int sourceRank() const override {
        const int source = flight_->works.empty() ? -1 : ddprun_work_source(flight_->works.front());
        TORCH_CHECK(
            source >= 0,
            "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.");
        return source;
    }

    uint64_t getSequencenumber() const override { return sequence_; }
    // Overrides from torch 2.12 on.
    Milliseconds getTimeout() const { return timeout_; }

  private:
    using Future = c10::intrusive_ptr<c10::ivalue::Future>;

    // Waits for the end of all works; returns the error of the first that failed, nullptr if none did.
    std::exception_ptr outcome() {
        for (ddprun_work* work : flight_->works) {
            if (const int code = ddprun_work_wait(work); code != DDPRUN_OK) return last_failure(code);
        }
        return nullptr;
    }

    // Does what remains to do, once, in the first thread that learns of the end.
    void settle(std::exception_ptr failure) {
        Tensors dropped;  // outside the lock, since it can take Python's
        const std::lock_guard lock(settling_);
        if (settled_.load(std::memory_order_acquire)) return;
        if (!failure) {
            try {
                // As if the library had written there itself: no version, no gradient, also in inference
                // mode.
                const at::AutoDispatchBelowADInplaceOrView raw;
                for (auto& [to, from] : task_.copies) to.copy_(from);
            } catch (...) {
                failure = std::current_exception();
            }
        }
        dropped.swap(flight_->held);
        for (auto& copy : task_.copies) dropped.push_back(std::move(copy.second));
        finish(failure);
        settled_.store(true, std::memory_order_release);
    }

    void wait_at_most(Milliseconds limit) {
        when_done([](Operation&) {});
        std::unique_lock lock(mutex_);
        if (cv_.wait_for(lock, limit, [this] { return completed_; })) return;
        throw RankError(DDPRUN_TIMED_OUT,
                        c10::str("ddprun: ", title_, " Timed out after waiting ", limit.count(),
                                 " ms; the operation goes on"),
                        {});
    }

    struct Done {
        c10::intrusive_ptr<Operation> operation;
        std::function<void(Operation&)> then;
    };

    // Calls then() when the operation has ended: at once, or on a thread of the library's.
    void when_done(std::function<void(Operation&)> then) {
        auto self = c10::intrusive_ptr<Operation>::reclaim_copy(this);
        if (flight_->works.empty()) return then(*this);
        auto done = std::make_unique<Done>(Done{std::move(self), std::move(then)});
        const auto called = [](void* context, int /*code*/) {
            std::unique_ptr<Done> mine(static_cast<Done*>(context));
            const std::shared_ptr<Calls> calls = mine->operation->flight_->calls;
            calls->run([&] {
                mine->operation->settle(mine->operation->outcome());
                mine->then(*mine->operation);
                mine.reset();
            });
        };
        flight_->calls->begin();
        require(ddprun_work_on_done(flight_->works.back(), called, done.get()));
        done.release();
    }

    Future future_of(Future& place, c10::TypePtr type, void (*fill)(Operation&, c10::ivalue::Future&)) {
        {
            const std::lock_guard lock(futures_);
            if (place) return place;
            place = c10::make_intrusive<c10::ivalue::Future>(std::move(type));
        }
        Future made = place;
        when_done([made, fill](Operation& self) { fill(self, *made); });
        return made;
    }

    c10d::WorkResult how() const {
        if (!exception_) return c10d::WorkResult::SUCCESS;
        try {
            std::rethrow_exception(exception_);
        } catch (const RankError& error) {
            return error.code == DDPRUN_TIMED_OUT ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
        } catch (...) {
            return c10d::WorkResult::UNKNOWN;
        }
    }

    const char* title_;
    const uint64_t sequence_;
    const Milliseconds timeout_;
    Task task_;
    const std::shared_ptr<Flight> flight_;
    std::atomic<bool> settled_{false};
    std::mutex settling_;
    std::mutex futures_;
    Future future_;
    Future result_;
};

}  // namespace app
}  // namespace ddprun
