#include "launcher/process/life_watch.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// None where the system has no thread to give: see start().
std::thread start_if_possible(std::function<void()> body) {
    try {
        return start_without_signals(std::move(body));
    } catch (const std::system_error&) {
        return {};
    }
}

}  // namespace

LifeWatch::LifeWatch(const boost::asio::any_io_executor& executor, LifeTable&& table, int workers,
                     std::function<void()> on_death)
    : executor_(executor),
      table_(std::move(table)),
      slots_(std::min(workers, kMaxLifeSlots)),
      on_death_(std::move(on_death)) {}

std::unique_ptr<LifeWatch> LifeWatch::make(const boost::asio::any_io_executor& executor, int workers,
                                           std::function<void()> on_death) {
    auto table = LifeTable::create();
    if (!table) return nullptr;
    return std::unique_ptr<LifeWatch>(
        new LifeWatch(executor, std::move(*table), workers, std::move(on_death)));
}

LifeWatch::~LifeWatch() {
    if (!claims_.joinable()) return;
    stop_.store(true);
    table_.wake_claim_watcher();
    claims_.join();
}

std::string LifeWatch::slot(int local_rank) const {
    return local_rank < slots_ ? to_string(table_.slot(local_rank)) : std::string();
}

void LifeWatch::start() {
    claims_ = start_if_possible([this] { watch_all(); });
}

// It runs until the end of the watch.
void LifeWatch::watch_all() {
    std::vector<std::thread> watchers(static_cast<std::size_t>(slots_));  // by slot
    while (true) {
        const std::uint32_t seen = table_.claims();
        if (stop_.load()) break;
        for (int slot = 0; slot < slots_; ++slot) {
            std::thread& watcher = watchers[static_cast<std::size_t>(slot)];
            if (!watcher.joinable() && table_.is_claimed(slot))
                watcher = start_if_possible([this, slot] { watch(slot); });
        }
        table_.wait_for_claim(seen);
    }
    // All before the first is awaited, so that they end side by side.
    for (int slot = 0; slot < slots_; ++slot) {
        if (watchers[static_cast<std::size_t>(slot)].joinable()) table_.wake_watcher(slot);
    }
    for (std::thread& watcher : watchers) {
        if (watcher.joinable()) watcher.join();
    }
}

void LifeWatch::watch(int slot) {
    ask_for_short_turns();
    while (!stop_.load()) {
        {
            const std::lock_guard lock(mutex_);
            if (look_at(slot)) boost::asio::post(executor_, alive_.guard([this] { on_death_(); }));
            if (seen_ >= kMaxLostLives) return;
        }
        table_.wait_for_death(slot, stop_);
    }
}

// True if there was a death. With the mutex held: a death is reported to one who asks at a time.
bool LifeWatch::look_at(int slot) {
    if (seen_ >= kMaxLostLives) return false;
    const auto life = table_.take_death(slot);
    if (!life) return false;
    ++seen_;
    deaths_.push_back({slot, *life});
    return true;
}

std::vector<LifeWatch::Death> LifeWatch::take() {
    const std::lock_guard lock(mutex_);
    for (int slot = 0; slot < slots_; ++slot) look_at(slot);
    return std::exchange(deaths_, {});
}

void LifeWatch::announce(std::uint64_t life) {
    if (life != 0) table_.announce(life);
}

}  // namespace launch
}  // namespace ddprun
