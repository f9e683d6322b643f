#include "launcher/agent/life_watch.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <mutex>
#include <utility>

#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/short_turns.hpp"
#include "rendezvous/worker/life_table.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

}  // namespace

// Shared, so that what is posted when the watch ends finds out.
struct LifeWatch::State : std::enable_shared_from_this<State> {
    State(const boost::asio::any_io_executor& runs_on, LifeTable&& made, int workers,
          std::function<void()> told)
        : executor(runs_on),
          table(std::move(made)),
          slots(std::min(workers, kMaxLifeSlots)),
          on_death(std::move(told)) {}

    // True if there was a death. With the mutex held: a death is reported to one who asks at a time.
    bool look_at(int slot) {
        if (seen >= kMaxLostLives) return false;
        const auto life = table.take_death(slot);
        if (!life) return false;
        ++seen;
        deaths.push_back({slot, *life});
        return true;
    }

    void watch(int slot) {
        ask_for_short_turns();
        while (!stop.load()) {
            {
                const std::lock_guard lock(mutex);
                if (look_at(slot)) tell();
                if (seen >= kMaxLostLives) return;
            }
            table.sleep_on_word(slot, stop);
        }
    }

    void tell() {
        boost::asio::post(executor, [weak = weak_from_this()] {
            const auto state = weak.lock();
            if (state && !state->stop.load()) state->on_death();
        });
    }

    const boost::asio::any_io_executor executor;
    LifeTable table;
    const int slots;
    const std::function<void()> on_death;
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::vector<Death> deaths;  // guarded by the mutex, like the next
    std::size_t seen = 0;       // all, taken or not
};

struct LifeWatch::Watcher {
    static void* run(void* watcher) {
        const auto* self = static_cast<const Watcher*>(watcher);
        self->state->watch(self->slot);
        return nullptr;
    }

    State* state = nullptr;
    int slot = 0;
    pthread_t thread{};
};

LifeWatch::LifeWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::unique_ptr<LifeWatch> LifeWatch::make(const boost::asio::any_io_executor& executor, int workers,
                                           std::function<void()> on_death) {
    auto table = LifeTable::create();
    if (!table) return nullptr;
    auto state = std::make_shared<State>(executor, std::move(*table), workers, std::move(on_death));
    return std::unique_ptr<LifeWatch>(new LifeWatch(std::move(state)));
}

LifeWatch::~LifeWatch() {
    state_->stop.store(true);
    // All before the first is awaited, so that they end side by side.
    for (const Watcher& watcher : watchers_) state_->table.rouse(watcher.slot);
    for (const Watcher& watcher : watchers_) ::pthread_join(watcher.thread, nullptr);
}

std::string LifeWatch::seat(int local_rank) const {
    return local_rank < state_->slots ? to_string(state_->table.seat(local_rank)) : std::string();
}

// The threads are born with all signals blocked: the agent's thread handles them all.
void LifeWatch::start() {
    watchers_.reserve(static_cast<std::size_t>(state_->slots));
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    const SignalsBlocked blocked;
    for (int slot = 0; slot < state_->slots; ++slot) {
        Watcher& watcher = watchers_.emplace_back(Watcher{state_.get(), slot});
        if (::pthread_create(&watcher.thread, &attributes, Watcher::run, &watcher) == 0) continue;
        watchers_.pop_back();
        break;
    }
    ::pthread_attr_destroy(&attributes);
}

std::vector<LifeWatch::Death> LifeWatch::take() {
    const std::lock_guard lock(state_->mutex);
    for (int slot = 0; slot < state_->slots; ++slot) state_->look_at(slot);
    return std::exchange(state_->deaths, {});
}

void LifeWatch::announce(std::uint64_t life) {
    if (life != 0) state_->table.announce(life);
}

}  // namespace ddprun
