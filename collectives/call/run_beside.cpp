#include "collectives/call/run_beside.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Threads that idle this long end.
constexpr std::chrono::seconds kIdleTime{10};
// So many idle at the most.
constexpr std::size_t kMostIdle = 4;

class Helpers {
  public:
    // Those of this process: a forked child has none of its parent's.
    static Helpers& here() {
        // They are the process's and no communicator's, or each would have some.
        static const std::reference_wrapper<std::atomic<Helpers*>> all(*new std::atomic<Helpers*>(nullptr));
        Helpers* found = all.get();
        if (found == nullptr || found->process_ != this_process()) {
            auto made = std::make_unique<Helpers>();
            // Never destroyed: threads may use it until the process has ended.
            if (all.get().compare_exchange_strong(found, made.get())) found = made.release();
        }
        return *found;
    }

    void run(std::function<void()> body) {
        std::unique_lock lock(mutex_);
        waiting_.push_back(std::move(body));
        changed_.notify_one();
        if (idle_ >= waiting_.size()) return;
        try {
            start_without_signals([this] { serve(); }).detach();
            ++threads_;
        } catch (const std::system_error&) {
            // One of the others takes it when it comes to that.
            if (threads_ > 0) return;
            body = std::move(waiting_.back());
            waiting_.pop_back();
            lock.unlock();
            body();
        }
    }

  private:
    void serve() {
        std::unique_lock lock(mutex_);
        while (!waiting_.empty() || idle_ < kMostIdle) {
            ++idle_;
            const bool called = changed_.wait_for(lock, kIdleTime, [&] { return !waiting_.empty(); });
            --idle_;
            if (!called) break;
            std::function<void()> body = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            body();
            body = nullptr;
            lock.lock();
        }
        --threads_;
    }

    const ProcessNumber process_ = this_process();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    std::size_t idle_ = 0;
    std::size_t threads_ = 0;
};

}  // namespace

void run_beside(std::function<void()> body) { Helpers::here().run(std::move(body)); }

}  // namespace detail
}  // namespace ddprun
