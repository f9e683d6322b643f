// A holder in a process of its own, since its end is what is looked at.
#include "rendezvous/worker/life_table.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <thread>

#include "rendezvous/system/shared_memory.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

constexpr int kSlot = 3;
constexpr std::uint64_t kLife = 0x1234'5678'9abc'def0;

// A child that claims the slot with its only thread, then ends as it is told.
class Holder {
  public:
    Holder(const LifeSlot& place, std::uint64_t life, const std::function<void(LifeTable&)>& end) {
        std::array<int, 2> ready{};
        REQUIRE(::pipe2(ready.data(), O_CLOEXEC) == 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            auto table = LifeTable::open(place);
            if (!table) ::_exit(1);
            const RobustFutex futex(table->word(place.slot));
            const bool holds = futex.set() && table->claim(place.slot, life);
            if (::write(ready[1], holds ? "y" : "n", 1) != 1) ::_exit(2);
            end(*table);
            ::_exit(0);
        }
        ::close(ready[1]);
        char answer = 0;
        REQUIRE(::read(ready[0], &answer, 1) == 1);
        ::close(ready[0]);
        claimed = answer == 'y';
    }
    ~Holder() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    pid_t pid() const { return pid_; }
    bool claimed = false;

  private:
    pid_t pid_ = -1;
};

void wait_for_a_signal(LifeTable&) {
    while (true) ::pause();
}

std::uint64_t await_death(LifeTable& table, int slot) {
    const std::atomic<bool> stop{false};
    while (true) {
        if (const auto life = table.take_death(slot)) return *life;
        table.wait_for_death(slot, stop);
    }
}

}  // namespace

TEST_CASE("a place has one text", "[life]") {
    const LifeSlot place{{4711, 9}, 255};
    REQUIRE(to_string(place) == "4711:9:255");
    const auto parsed = parse_life_slot("4711:9:255");
    REQUIRE(parsed);
    REQUIRE(to_string(*parsed) == to_string(place));
    for (const char* wrong : {"", ":", "1", "1:2", "1:2:", "1:2:3:", "1:2:3:4", "1:2:256", "-1:2:3", "1:2:-3",
                              " 1:2:3", "1:2:3 ", "a:b:c", "99999999999:1:1"}) {
        INFO(wrong);
        REQUIRE_FALSE(parse_life_slot(wrong));
    }
}

TEST_CASE("what is no life table cannot be opened", "[life]") {
    REQUIRE_FALSE(LifeTable::open({{::getpid(), 999'999}, 0}));
    REQUIRE_FALSE(LifeTable::open({}));
    const auto other = ShmMapping::create("ddprun-other", 4096);
    REQUIRE(other);
    REQUIRE_FALSE(LifeTable::open({other->offer(), 0}));
    const auto table = LifeTable::create();
    REQUIRE(table);
    REQUIRE(LifeTable::open(table->slot(0)));
    REQUIRE(::ftruncate(table->slot(0).offer.descriptor, 0) != 0);
}

TEST_CASE("the agent hears of a holder's death, once, and by its life", "[life]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    {
        const Holder holder(table->slot(kSlot), kLife, wait_for_a_signal);
        REQUIRE(holder.claimed);
        REQUIRE_FALSE(table->take_death(kSlot));
        ::kill(holder.pid(), SIGKILL);
        REQUIRE(await_death(*table, kSlot) == kLife);
        REQUIRE_FALSE(table->take_death(kSlot));
    }
    // The slot is free for the worker's next process.
    const Holder next(table->slot(kSlot), kLife + 1, [](LifeTable&) { ::_exit(0); });
    REQUIRE(next.claimed);
    REQUIRE(await_death(*table, kSlot) == kLife + 1);
}

TEST_CASE("a slot has one holder, and who leaves in order has not died", "[life]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    {
        const Holder holder(table->slot(kSlot), kLife, wait_for_a_signal);
        REQUIRE(holder.claimed);
        REQUIRE_FALSE(Holder(table->slot(kSlot), kLife + 1, wait_for_a_signal).claimed);
        REQUIRE(Holder(table->slot(kSlot + 1), kLife + 1, wait_for_a_signal).claimed);
    }
    REQUIRE(await_death(*table, kSlot) == kLife);
    {
        const Holder leaver(table->slot(kSlot), kLife + 2, [](LifeTable& own) { own.release(kSlot); });
        ::waitpid(leaver.pid(), nullptr, 0);
        REQUIRE_FALSE(table->take_death(kSlot));
    }
    REQUIRE(Holder(table->slot(kSlot), kLife + 3, wait_for_a_signal).claimed);
}

TEST_CASE("whoever claims a dead one's slot while that is taken is not reported dead", "[life]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    constexpr std::uint64_t kRounds = 200'000;
    std::atomic<bool> over{false};
    std::atomic<bool> is_wrong{false};
    std::thread agent([&] {
        while (!over.load()) {
            // Lives that end are odd.
            if (const auto life = table->take_death(kSlot); life && *life % 2 == 0) is_wrong = true;
        }
    });
    for (std::uint64_t life = 1; life < 2 * kRounds && !is_wrong.load(); life += 2) {
        while (!table->claim(kSlot, life)) std::this_thread::yield();
        // As the kernel says it.
        table->word(kSlot).store(FUTEX_OWNER_DIED);
        while (!table->claim(kSlot, life + 1)) std::this_thread::yield();
        table->release(kSlot);
    }
    over = true;
    agent.join();
    CHECK_FALSE(is_wrong.load());
}

TEST_CASE("a sleeper on a word can be roused", "[life]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    for (int repeat = 0; repeat < 100; ++repeat) {
        std::atomic<bool> stop{false};
        std::thread sleeper([&] {
            while (!stop.load()) table->wait_for_death(kSlot, stop);
        });
        stop.store(true);
        table->wake_watcher(kSlot);
        sleeper.join();
    }
}

TEST_CASE("announced lives reach a sleeper on its bell, in order, as many as there is room for", "[life]") {
    auto table = LifeTable::create();
    REQUIRE(table);
    auto workers = LifeTable::open(table->slot(kSlot));
    REQUIRE(workers);
    std::thread sleeper([&] {
        while (true) {
            const std::uint32_t rung = workers->wakeups(kSlot);
            if (workers->lost_count() == 2) return;
            workers->wait_for_wakeup(kSlot, rung);
        }
    });
    REQUIRE(table->announce(kLife));
    REQUIRE(table->announce(kLife + 1));
    sleeper.join();
    REQUIRE(workers->lost(0) == kLife);
    REQUIRE(workers->lost(1) == kLife + 1);
    for (std::size_t i = 2; i < kMaxLostLives; ++i) REQUIRE(table->announce(i));
    REQUIRE_FALSE(table->announce(1));
    REQUIRE(workers->lost_count() == kMaxLostLives);
}
