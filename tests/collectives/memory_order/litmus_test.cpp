// The checker itself: the classic programs of two to three threads, with the outcomes that C11 allows and
// those that it forbids.
#include <memory>
#include <set>
#include <vector>

#include "tests/collectives/memory_order/weak_memory.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace memory_order_test {
namespace {

using Outcome = std::vector<std::uint64_t>;
using enum Order;

struct Litmus {
    Atomic x;
    Atomic y;
    Plain plain;
    Outcome seen = Outcome(4);
};

// All outcomes of the threads, each of which is a function of Litmus&.
template <class... Threads>
std::set<Outcome> outcomes(Threads... threads) {
    std::set<Outcome> all;
    const Found found = explore([&](World& world) {
        auto shared = std::make_shared<Litmus>();
        (world.thread([shared, threads] { threads(*shared); }), ...);
        world.at_end([shared, &all] { all.insert(shared->seen); });
    });
    INFO(found.fault);
    REQUIRE(found.fault.empty());
    REQUIRE(found.all);
    return all;
}

template <class... Threads>
std::string fault_of(Threads... threads) {
    return explore([&](World& world) {
               auto shared = std::make_shared<Litmus>();
               (world.thread([shared, threads] { threads(*shared); }), ...);
           })
        .fault;
}

TEST_CASE("a store of one thread may pass its load, but where both are consistent or a fence is between",
          "[litmus]") {
    const auto store_buffering = [](Order store, Order load, bool fences) {
        return outcomes(
            [=](Litmus& shared) {
                shared.x.store(1, store);
                if (fences) fence(seq_cst);
                shared.seen[0] = shared.y.load(load);
            },
            [=](Litmus& shared) {
                shared.y.store(1, store);
                if (fences) fence(seq_cst);
                shared.seen[1] = shared.x.load(load);
            });
    };
    const Outcome neither{0, 0, 0, 0};
    CHECK(store_buffering(relaxed, relaxed, false).contains(neither));
    CHECK(store_buffering(release, acquire, false).contains(neither));
    CHECK(store_buffering(seq_cst, acquire, false).contains(neither));
    CHECK(store_buffering(release, seq_cst, false).contains(neither));
    CHECK_FALSE(store_buffering(seq_cst, seq_cst, false).contains(neither));
    CHECK_FALSE(store_buffering(relaxed, relaxed, true).contains(neither));
    CHECK(store_buffering(seq_cst, seq_cst, false).size() == 3);
}

TEST_CASE("a message is there when its flag is, if the flag was released and acquired", "[litmus]") {
    const auto message = [](Order store, Order load) {
        return outcomes(
            [=](Litmus& shared) {
                shared.x.store(1, relaxed);
                shared.y.store(1, store);
            },
            [=](Litmus& shared) {
                shared.seen[0] = shared.y.load(load);
                shared.seen[1] = shared.x.load(relaxed);
            });
    };
    const Outcome stale{1, 0, 0, 0};
    CHECK_FALSE(message(release, acquire).contains(stale));
    CHECK(message(relaxed, acquire).contains(stale));
    CHECK(message(release, relaxed).contains(stale));
    CHECK(message(release, acquire).size() == 3);
}

TEST_CASE("fences pass a message on as the flag's own order would", "[litmus]") {
    const auto message = [](bool first, bool second) {
        return outcomes(
            [=](Litmus& shared) {
                shared.x.store(1, relaxed);
                if (first) fence(release);
                shared.y.store(1, relaxed);
            },
            [=](Litmus& shared) {
                shared.seen[0] = shared.y.load(relaxed);
                if (second) fence(acquire);
                shared.seen[1] = shared.x.load(relaxed);
            });
    };
    const Outcome stale{1, 0, 0, 0};
    CHECK_FALSE(message(true, true).contains(stale));
    CHECK(message(false, true).contains(stale));
    CHECK(message(true, false).contains(stale));
}

TEST_CASE("two readers agree on the order of two stores only where all is consistent", "[litmus]") {
    // The stores are one thread's each, the second of which reads too: three threads are enough.
    const auto independent = [](Order store, Order load) {
        return outcomes([=](Litmus& shared) { shared.x.store(1, store); },
                        [=](Litmus& shared) {
                            shared.seen[0] = shared.x.load(load);
                            shared.seen[1] = shared.y.load(load);
                        },
                        [=](Litmus& shared) {
                            shared.y.store(1, store);
                            shared.seen[2] = shared.x.load(load);
                        });
    };
    const Outcome disagree{1, 0, 0, 0};
    CHECK(independent(release, acquire).contains(disagree));
    CHECK_FALSE(independent(seq_cst, seq_cst).contains(disagree));
    const auto four = [](Order order) {
        const auto read = [order](Litmus& shared, std::size_t at, Atomic& first, Atomic& second) {
            shared.seen[at] = first.load(order);
            shared.seen[at + 1] = second.load(order);
        };
        const Order store = order == acquire ? release : order;
        return outcomes([=](Litmus& shared) { shared.x.store(1, store); },
                        [=](Litmus& shared) { shared.y.store(1, store); },
                        [=](Litmus& shared) { read(shared, 0, shared.x, shared.y); },
                        [=](Litmus& shared) { read(shared, 2, shared.y, shared.x); });
    };
    CHECK(four(acquire).contains(Outcome{1, 0, 1, 0}));
    CHECK_FALSE(four(seq_cst).contains(Outcome{1, 0, 1, 0}));
}

TEST_CASE("a value is never older than one that was seen before", "[litmus]") {
    const auto all = outcomes(
        [](Litmus& shared) {
            shared.x.store(1, relaxed);
            shared.x.store(2, relaxed);
        },
        [](Litmus& shared) {
            shared.seen[0] = shared.x.load(relaxed);
            shared.seen[1] = shared.x.load(relaxed);
        });
    for (const Outcome& one : all) CHECK(one[0] <= one[1]);
    CHECK(all.size() == 6);
}

TEST_CASE("a read-modify-write hands on what the store before it released, another store does not",
          "[litmus]") {
    const auto sequence = [](bool modifies) {
        return fault_of(
            [](Litmus& shared) {
                shared.plain.write(1);
                shared.x.store(1, release);
            },
            [=](Litmus& shared) {
                if (shared.x.load(relaxed) != 1) return;
                modifies ? static_cast<void>(shared.x.fetch_add(1, relaxed)) : shared.x.store(2, relaxed);
            },
            [](Litmus& shared) {
                if (shared.x.load(acquire) == 2) shared.plain.read();
            });
    };
    CHECK(sequence(true).empty());
    CHECK(sequence(false) == "a read races with a write");
}

TEST_CASE("two that count up count both", "[litmus]") {
    const auto count = [](Litmus& shared) { shared.x.fetch_add(1, relaxed); };
    const Found found = explore([&](World& world) {
        auto shared = std::make_shared<Litmus>();
        world.thread([=] { count(*shared); });
        world.thread([=] { count(*shared); });
        world.at_end([shared, &world] { world.require(shared->x.latest() == 2, "one was lost"); });
    });
    CHECK(found.fault.empty());
    CHECK(found.all);
}

TEST_CASE("loads that come after stores in a program are not delayed past them", "[litmus]") {
    // C11 allows it; see the head of weak_memory.hpp.
    const auto all = outcomes(
        [](Litmus& shared) {
            shared.seen[0] = shared.x.load(relaxed);
            shared.y.store(1, relaxed);
        },
        [](Litmus& shared) {
            shared.seen[1] = shared.y.load(relaxed);
            shared.x.store(1, relaxed);
        });
    CHECK(all.size() == 3);
}

TEST_CASE("plain values race unless they are ordered, and in both directions", "[litmus]") {
    const auto handed_back = [](Order store) {
        return fault_of(
            [=](Litmus& shared) {
                shared.plain.read();
                shared.x.store(1, store);
            },
            [](Litmus& shared) {
                shared.x.await(acquire, [](std::uint64_t value) { return value == 1; });
                shared.plain.write(1);
            });
    };
    CHECK(handed_back(release).empty());
    CHECK(handed_back(relaxed) == "a write races with a read");
    CHECK(fault_of([](Litmus& shared) { shared.plain.write(1); },
                   [](Litmus& shared) { shared.plain.write(2); }) == "a write races with a write");
}

TEST_CASE("a wake before the sleep is lost, and threads that wait for ever are found", "[litmus]") {
    CHECK(fault_of([](Litmus& shared) { futex_wait(shared.x, 0); },
                   [](Litmus& shared) { futex_wake_all(shared.x); }) == "threads wait, and nobody ends that");
    CHECK(fault_of([](Litmus& shared) { futex_wait(shared.x, 0); },
                   [](Litmus& shared) {
                       shared.x.store(1, relaxed);
                       futex_wake_all(shared.x);
                   })
              .empty());
    CHECK(fault_of(
              [](Litmus& shared) { shared.x.await(acquire, [](std::uint64_t value) { return value == 1; }); },
              [](Litmus&) {}) == "threads wait, and nobody ends that");
}

TEST_CASE("a random run with a fault tells its seed, with which it is the same again", "[litmus]") {
    const auto make = [](World& world) {
        auto shared = std::make_shared<Litmus>();
        for (int i = 0; i < 2; ++i) {
            world.thread([=, &world] {
                const std::uint64_t before = shared->x.load();
                shared->x.store(before + 1);
                if (i == 0) world.require(before == 0, "late");
            });
        }
    };
    const Found found = explore(make, {.preemptions = 0, .runs = 1});
    REQUIRE(found.fault == "late");
    REQUIRE(found.seed != 0);
    const Found again = explore(make, {.preemptions = 0, .runs = 1, .random_runs = 1, .seed = found.seed});
    CHECK(again.fault == "late");
    CHECK(again.seed == found.seed);
}

}  // namespace
}  // namespace memory_order_test
}  // namespace ddprun
