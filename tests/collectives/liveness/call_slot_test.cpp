#include "collectives/liveness/call_slot.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Returns the page of this process; null if it has none.
const CallPage* own_page() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(kCallPageInMaps) == std::string::npos) continue;
        std::uintptr_t begin = 0;
        std::istringstream(line) >> std::hex >> begin;
        return reinterpret_cast<const CallPage*>(begin);  // NOLINT(performance-no-int-to-ptr)
    }
    return nullptr;
}

using Slot = CallSlotOf<std::atomic<std::uint64_t>>;

const Slot* slot_of(std::uint64_t group) {
    const CallPage* page = own_page();
    if (page == nullptr) return nullptr;
    for (const Slot& slot : page->slots) {
        if (slot.group == group) return &slot;
    }
    return nullptr;
}

Call call_number(std::uint64_t number, Operation operation = Operation::all_reduce) {
    Call call;
    call.operation = operation;
    call.sequence = number;
    return call;
}

std::string name_in(const CallPage& page, std::uint64_t word) {
    return page.names[call_of(word).operation].data();
}

const Deadline kThen = Deadline(std::chrono::seconds(7));

}  // namespace

TEST_CASE("call slot: begin and end are told in a page of the process's own") {
    CallSlot slot(77, {0, 1});
    const Slot* told = slot_of(77);
    REQUIRE(told != nullptr);
    CHECK(own_page()->magic == kCallPageMagic);
    CHECK(own_page()->size == sizeof(CallPage));
    CHECK(told->call == 0);
    slot.begin(call_number(5));
    CHECK(call_of(told->call).number == 5);
    CHECK(call_of(told->call).is_open);
    CHECK(name_in(*own_page(), told->call) == "all_reduce");
    CHECK(&own_page()->slots[own_page()->latest] == told);
    slot.end();
    CHECK(call_of(told->call).is_open);
    slot.wait(kThen, {});
    slot.end();
    slot.end();
    CHECK_FALSE(call_of(told->call).is_open);
    CHECK(call_of(told->call).number == 5);
    // The exchange of counts is part of the operation that has them.
    Call parts = call_number(6, Operation::parts);
    parts.root = static_cast<int>(Operation::all_to_all);
    slot.begin(parts);
    CHECK(name_in(*own_page(), told->call) == "all_to_all");
    CallSlot other(78, {});
    other.begin(call_number(1));
    CHECK(&own_page()->slots[own_page()->latest] == slot_of(78));
    CHECK(own_page()->names.back()[0] == '\0');
}

TEST_CASE("call slot: calls without a number of their own differ") {
    CallSlot slot(77, {0, 1});
    const Slot* told = slot_of(77);
    slot.begin(call_number(3));
    std::uint64_t before = told->call;
    for (int i = 0; i < 3; ++i) {
        slot.begin(call_number(3, Operation::send));
        CHECK(told->call > before);
        CHECK(call_of(told->call).number == 3);
        before = told->call;
    }
}

TEST_CASE("call slot: a wait names ranks of the job, and begins once") {
    CallSlot slot(77, {10, 11, 70'000, 13, 14, 15, 16, 17, 18, 19, 20});
    const Slot* told = slot_of(77);
    slot.begin(call_number(1));
    CHECK(told->waiting_call != told->call);
    slot.wait(kThen, std::vector{1, 2, 3});
    CHECK(told->turn % 2 == 0);
    CHECK(told->waiting_call == told->call);
    CHECK(told->since_ns == 7'000'000'000);
    CHECK(wait_of(told->about) == WaitWord{true, 2});
    std::array<std::uint64_t, 2> ranks{told->awaited[0], told->awaited[1]};
    CHECK(awaited_rank(ranks, 0) == 11);
    CHECK(awaited_rank(ranks, 1) == 13);
    slot.wait(kThen + std::chrono::seconds(1), std::vector{0, 1, 3, 4, 5, 6, 7, 8, 9, 10});
    CHECK(told->since_ns == 7'000'000'000);
    CHECK(wait_of(told->about).awaited == kCallAwaited);
    slot.wait(kThen, std::vector{-1});
    slot.wait(kThen, std::vector{11});
    CHECK(wait_of(told->about).awaited == 0);
    std::thread([&] { slot.wait(kThen, {}); }).join();
    CHECK_FALSE(wait_of(told->about).is_main);
    slot.end();
    CHECK(told->waiting_call != told->call);
    slot.begin(call_number(2));
    CHECK(told->waiting_call != told->call);
    slot.wait(kThen + std::chrono::seconds(1), {});
    CHECK(told->since_ns == 8'000'000'000);
}

TEST_CASE("call slot: a reader can tell that a wait is being told at the moment") {
    constexpr int kMostWaits = 50'000'000;  // the first thousands are enough
    CallSlot slot(77, {0, 1});
    const Slot* told = slot_of(77);
    slot.begin(call_number(1));
    std::atomic<bool> was_seen{false}, is_over{false};
    std::thread watcher([&] {
        while (!is_over && !was_seen) was_seen = told->turn % 2 != 0;
    });
    for (int i = 0; i < kMostWaits && !was_seen; ++i) slot.wait(kThen, {});
    is_over = true;
    watcher.join();
    CHECK(was_seen);
    CHECK(told->turn % 2 == 0);
}

TEST_CASE("call slot: more communicators than slots are told of nowhere, and slots are used again") {
    std::vector<std::unique_ptr<CallSlot>> slots;
    for (std::uint64_t group = 1; group <= kCallSlots + 3; ++group) {
        slots.push_back(std::make_unique<CallSlot>(group, std::vector<int>{}));
        slots.back()->begin(call_number(group));
        slots.back()->wait(kThen, {});
        CHECK((slot_of(group) != nullptr) == (group <= kCallSlots));
    }
    const Slot* freed = slot_of(4);
    slots[3].reset();
    CHECK(slot_of(4) == nullptr);
    const CallSlot next(99, {});
    CHECK(slot_of(99) == freed);
    CHECK(freed->call == 0);
    CHECK(freed->turn % 2 == 0);
}

TEST_CASE("call slot: a forked child has a page of its own, with its first communicator") {
    CallSlot slot(77, {});
    slot.begin(call_number(9));
    const pid_t child = ::fork();
    if (child == 0) {
        bool is_right = own_page() == nullptr;
        CallSlot own(78, {});
        own.begin(call_number(2));
        own.wait(kThen, {});
        is_right = is_right && own_page() != nullptr && slot_of(77) == nullptr && slot_of(78) != nullptr &&
                   wait_of(slot_of(78)->about).is_main;
        ::_exit(is_right ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(call_of(slot_of(77)->call).number == 9);
    CHECK(slot_of(78) == nullptr);
}

}  // namespace ddprun
