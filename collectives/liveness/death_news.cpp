#include "collectives/liveness/death_news.hpp"

#include <cstring>
#include <system_error>
#include <utility>

#include "collectives/wire/frame.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

std::uint64_t random_life() {
    std::uint64_t life = 0;
    while (life == 0) {
        const Nonce nonce = random_nonce();
        std::memcpy(&life, nonce.data(), sizeof(life));
    }
    return life;
}

}  // namespace

std::shared_ptr<DeathNews> DeathNews::open(const LifeSlot& slot) {
    auto table = LifeTable::open(slot);
    if (!table) return nullptr;
    try {
        return {new DeathNews(std::move(*table), slot), DeleteInOwnProcess<DeathNews>()};
    } catch (const std::system_error&) {
        return nullptr;
    }
}

std::shared_ptr<DeathNews> DeathNews::of_successor(const std::shared_ptr<DeathNews>& news) {
    if (!news || news->holds_.load()) return news;
    return open(news->own_slot_);
}

DeathNews::DeathNews(LifeTable table, const LifeSlot& slot)
    : table_(std::move(table)), own_slot_(slot), first_(table_.lost_count()), told_(first_) {
    thread_ = start_without_signals([this, life = random_life()] { run(life); });
    started_.wait();
}

DeathNews::~DeathNews() {
    stopping_.store(true);
    table_.wake(slot_);
    thread_.join();
}

void DeathNews::add(Listener& listener) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(&listener);
    for (std::uint32_t i = first_; i < told_; ++i) listener.life_lost(table_.lost(i));
}

void DeathNews::remove(Listener& listener) {
    const std::lock_guard lock(mutex_);
    std::erase(listeners_, &listener);
}

void DeathNews::withdraw() {
    if (holds_.exchange(false)) table_.release(slot_);
}

// The slot's word is the thread's own to the kernel: it must be claimed, and in the end be let go, while the
// thread lives.
void DeathNews::run(std::uint64_t life) {
    ask_for_short_turns();
    const RobustFutex futex(table_.word(slot_));
    if (futex.set() && table_.claim(slot_, life)) {
        life_ = life;
        holds_.store(true);
    }
    started_.count_down();
    listen();
    withdraw();
}

void DeathNews::listen() {
    while (true) {
        const std::uint32_t rung = table_.wakeups(slot_);
        if (stopping_.load()) return;
        tell_new_losses();
        table_.wait_for_wakeup(slot_, rung);
    }
}

void DeathNews::tell_new_losses() {
    const std::lock_guard lock(mutex_);
    for (; told_ < table_.lost_count(); ++told_) {
        for (Listener* const listener : listeners_) listener->life_lost(table_.lost(told_));
    }
}

}  // namespace detail
}  // namespace ddprun
