// Two threads' CPUs, as those see them who wait for each other; and memory that has a number.
#include "rendezvous/system/shared_memory.hpp"

#include <sched.h>
#include <sys/ipc.h>
#include <sys/shm.h>

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

TEST_CASE("memory with a number is there for those who know it, until nobody maps it", "[shared_memory]") {
    auto mine = ShmMapping::create_by_number(2 * page_size());
    if (!mine) {
        WARN("skipped: the system refuses System V's memory");
        return;
    }
    const ShmOffer offer = mine->offer();
    CHECK(offer.pid == kShmByNumber);
    {
        const auto theirs = ShmMapping::open(offer, page_size());
        REQUIRE(theirs);
        REQUIRE(theirs->size() == 2 * page_size());
        mine->base()[page_size()] = std::byte{7};
        CHECK(theirs->base()[page_size()] == std::byte{7});
    }
    CHECK_FALSE(ShmMapping::open(offer, 2 * page_size() + 1));
    CHECK_FALSE(ShmMapping::open({kShmByNumber, -1}, 1));
    shmid_ds status{};
    REQUIRE(::shmctl(offer.descriptor, IPC_STAT, &status) == 0);
    CHECK((status.shm_perm.mode & 0777U) == 0600U);
    CHECK((status.shm_perm.mode & SHM_DEST) != 0U);
    CHECK(status.shm_nattch == 1U);
    mine.reset();
    CHECK_FALSE(ShmMapping::open(offer, 1));
    CHECK(::shmctl(offer.descriptor, IPC_STAT, &status) != 0);
}
