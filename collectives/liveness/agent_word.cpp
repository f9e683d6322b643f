#include "collectives/liveness/agent_word.hpp"

#include <cstring>
#include <system_error>
#include <utility>

#include "collectives/wire/nonce.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/robust_futex.hpp"
#include "rendezvous/system/short_turns.hpp"

namespace ddprun {
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

std::shared_ptr<AgentWord> AgentWord::open(const LifeSeat& seat) {
    auto table = LifeTable::open(seat);
    if (!table) return nullptr;
    try {
        return {new AgentWord(std::move(*table), seat), DeleteInOwnProcess<AgentWord>()};
    } catch (const std::system_error&) {
        return nullptr;
    }
}

std::shared_ptr<AgentWord> AgentWord::of_successor(const std::shared_ptr<AgentWord>& word) {
    if (!word || word->holds_.load()) return word;
    return open(word->seat_);
}

AgentWord::AgentWord(LifeTable table, const LifeSeat& seat)
    : table_(std::move(table)), seat_(seat), first_(table_.lost_count()), told_(first_) {
    thread_ = start_without_signals([this, life = random_life()] { run(life); });
    come_.wait();
}

AgentWord::~AgentWord() {
    stopping_.store(true);
    table_.ring(slot_);
    thread_.join();
}

void AgentWord::add(Listener& listener) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(&listener);
    for (std::uint32_t i = first_; i < told_; ++i) listener.life_lost(table_.lost(i));
}

void AgentWord::remove(Listener& listener) {
    const std::lock_guard lock(mutex_);
    std::erase(listeners_, &listener);
}

void AgentWord::withdraw() {
    if (holds_.exchange(false)) table_.release(slot_);
}

// The word is the thread's own to the kernel: it must be claimed, and in the end be let go, while the thread
// lives.
void AgentWord::run(std::uint64_t life) {
    ask_for_short_turns();
    const RobustFutex futex(table_.word(slot_));
    if (futex.set() && table_.claim(slot_, life)) {
        life_ = life;
        holds_.store(true);
    }
    come_.count_down();
    listen();
    withdraw();
}

void AgentWord::listen() {
    while (true) {
        const std::uint32_t rung = table_.rung(slot_);
        if (stopping_.load()) return;
        tell_new_losses();
        table_.sleep_on_bell(slot_, rung);
    }
}

void AgentWord::tell_new_losses() {
    const std::lock_guard lock(mutex_);
    for (; told_ < table_.lost_count(); ++told_) {
        for (Listener* const listener : listeners_) listener->life_lost(table_.lost(told_));
    }
}

}  // namespace ddprun
