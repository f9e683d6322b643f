// Two threads' CPUs, as those see them who wait for each other.
#include "rendezvous/system/shared_memory.hpp"

#include <sched.h>

#include <thread>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

cpu_set_t allowed() {
    cpu_set_t set;
    REQUIRE(::sched_getaffinity(0, sizeof(set), &set) == 0);
    return set;
}

// On a thread of its own, whose CPUs it may set.
template <class Body>
void beside(Body body) {
    std::thread(body).join();
}

// Pins the thread to the CPU on which it is.
std::uint32_t stay_here() {
    const auto cpu = static_cast<std::uint32_t>(::sched_getcpu());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
    return cpu;
}

}  // namespace

TEST_CASE("who waits for another one says on which CPU, and stays where that one is not", "[shared_memory]") {
    beside([] {
        const std::uint32_t cpu = stay_here();
        std::atomic<std::uint32_t> own{0};
        for (const std::uint32_t other : {std::uint32_t{0}, cpu + 2}) {
            const std::atomic<std::uint32_t> others{other};
            leave_cpu_of(others, own, false);
            CHECK(own == cpu + 1);
            CHECK(::sched_getcpu() == static_cast<int>(cpu));
        }
    });
}

TEST_CASE("who may run on one CPU only stays there, and may run where it might before", "[shared_memory]") {
    beside([] {
        const std::uint32_t cpu = stay_here();
        const cpu_set_t before = allowed();
        std::atomic<std::uint32_t> own{0};
        const std::atomic<std::uint32_t> others{cpu + 1};
        leave_cpu_of(others, own, false);
        const cpu_set_t after = allowed();
        CHECK(CPU_EQUAL(&before, &after));
    });
}

TEST_CASE("of two that wait for each other on one CPU the other one leaves it", "[shared_memory]") {
    if (const cpu_set_t all = allowed(); CPU_COUNT(&all) < 2) {
        WARN("skipped: there is one CPU only");
        return;
    }
    const auto where_after = [](bool stays) {
        int moved = 0;
        beside([&] {
            const cpu_set_t all = allowed();
            const auto cpu = stay_here();
            // It may run elsewhere again, and mostly does not.
            REQUIRE(::sched_setaffinity(0, sizeof(all), &all) == 0);
            std::atomic<std::uint32_t> own{0};
            const std::atomic<std::uint32_t> others{cpu + 1};
            leave_cpu_of(others, own, stays);
            // Not if the system has moved it before, which own tells.
            moved = own == cpu + 1 && ::sched_getcpu() != static_cast<int>(cpu) ? 1 : 0;
            const cpu_set_t after = allowed();
            CHECK(CPU_EQUAL(&all, &after));
        });
        return moved;
    };
    int left = 0;
    for (int i = 0; i < 20; ++i) left += where_after(false);
    CHECK(left > 0);
    int stayed = 0;
    for (int i = 0; i < 20; ++i) stayed += 1 - where_after(true);
    CHECK(stayed > 0);
}
