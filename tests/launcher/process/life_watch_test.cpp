#include "launcher/process/life_watch.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "rendezvous/system/shared_memory.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Deaths = std::vector<LifeWatch::Death>;

// A watch for so many slots, and what it has told.
struct Watched {
    explicit Watched(int workers)
        : watch(LifeWatch::make(context.get_executor(), workers, [this] {
              ++told;
              for (const auto& death : watch->take()) deaths.push_back(death);
          })) {
        REQUIRE(watch);
    }

    WorkerSpec worker(int slot, std::vector<std::string> modes) const {
        WorkerSpec spec = stub_spec(std::move(modes));
        spec.environment[kLifeVariable] = watch->slot(slot);
        return spec;
    }

    boost::asio::io_context context{1};
    int told = 0;
    Deaths deaths;
    std::unique_ptr<LifeWatch> watch;
};

}  // namespace

TEST_CASE("a death is told once, whoever sees it first, and its slot is free again") {
    Watched watched(2);
    const bool by_thread = GENERATE(true, false);
    if (by_thread) watched.watch->start();
    for (int repeat = 0; repeat < 3; ++repeat) {
        StubRun worker(watched.worker(1, {"live", "4711", "say", "ready", "signal", "9"}));
        CHECK(worker.out().line() == "ready");
        worker.wait();
        const auto wanted = static_cast<std::size_t>(repeat) + 1;
        if (by_thread) {
            run_until(watched.context, [&] { return watched.deaths.size() == wanted; });
        } else {
            for (const auto& death : watched.watch->take()) watched.deaths.push_back(death);
        }
        REQUIRE(watched.deaths.size() == wanted);
        CHECK(watched.deaths.back().local_rank == 1);
        CHECK(watched.deaths.back().life == 4711);
        CHECK(watched.watch->take().empty());
    }
}

TEST_CASE("what is lost elsewhere is announced to the workers, but for a life without a name") {
    Watched watched(1);
    watched.watch->start();
    StubRun worker(watched.worker(0, {"wait-for-death", "exit", "3"}));
    watched.watch->announce(0);
    const auto table = LifeTable::open(*parse_life_slot(watched.watch->slot(0)));
    REQUIRE(table);
    CHECK(table->lost_count() == 0);
    watched.watch->announce(99);
    CHECK(shell_code(worker.wait()) == 3);
    CHECK(table->lost(0) == 99);
}

TEST_CASE("workers without a slot have none") {
    const Watched watched(kMaxLifeSlots + 2);
    CHECK(parse_life_slot(watched.watch->slot(kMaxLifeSlots - 1)));
    CHECK(watched.watch->slot(kMaxLifeSlots).empty());
}

TEST_CASE("the threads of a watch end with it, at any time") {
    const auto threads = [] {
        const std::filesystem::directory_iterator tasks("/proc/self/task");
        return std::distance(begin(tasks), end(tasks));
    };
    // One that was joined may be listed for a moment longer.
    const auto are = [&](std::ptrdiff_t expected) {
        const auto guard = std::chrono::steady_clock::now() + kHangGuard;
        while (threads() != expected && std::chrono::steady_clock::now() < guard) std::this_thread::yield();
        return threads() == expected;
    };
    const auto before = threads();
    for (int repeat = 0; repeat < 20; ++repeat) {
        Watched watched(8);
        watched.watch->start();
        CHECK(are(before + 1));
        auto table = LifeTable::open(*parse_life_slot(watched.watch->slot(0)));
        REQUIRE(table);
        for (int slot = 0; slot < repeat % 9; ++slot) REQUIRE(table->claim(slot, 1));
        // At the end some of the threads may not yet have been started, or are just beginning.
        if (repeat < 10) run_until(watched.context, [&] { return threads() == before + 1 + repeat % 9; });
    }
    CHECK(are(before));
}

TEST_CASE("a slot that dies again and again is given up") {
    Watched watched(1);
    auto table = LifeTable::open(*parse_life_slot(watched.watch->slot(0)));
    REQUIRE(table);
    watched.watch->start();
    const auto die = [&] {
        table->claim(0, 1);
        table->word(0).store(FUTEX_OWNER_DIED);
        table->wake_watcher(0);
    };
    while (watched.deaths.size() < kMaxLostLives) {
        die();
        watched.context.poll();
        watched.context.restart();
    }
    die();
    CHECK(watched.watch->take().empty());
    CHECK(watched.deaths.size() == kMaxLostLives);
}

}  // namespace ddprun
