#include "launcher/watch/published_calls.hpp"

#include "launcher/verdict/judge.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
const std::chrono::steady_clock::time_point kNow{std::chrono::seconds(100)};

PublishedCall waiting(bool is_main) {
    return {"all_reduce", "00000000000000aa", 12, 12 << 16, PublishedWait{69 * kSecond, is_main, {3}}};
}

Wait main_in(WaitKind kind, pid_t holder = 0) {
    Wait wait;
    wait.kind = kind;
    wait.thread = holder;
    return wait;
}

}  // namespace

TEST_CASE("published calls: the main thread's call is the rank's, whatever the kernel says") {
    for (const WaitKind kind : {WaitKind::lock, WaitKind::poll, WaitKind::running, WaitKind::stopped}) {
        const CollectiveCall call = observed_call(waiting(true), main_in(kind), kNow);
        CHECK(call == CollectiveCall{"all_reduce", "00000000000000aa", 12, 31'000, {3}});
    }
}

TEST_CASE("published calls: another thread's call is the rank's where the main thread waits for it") {
    CHECK(observed_call(waiting(false), main_in(WaitKind::lock), kNow).for_ms == 31'000);
    for (const Wait& wait :
         {main_in(WaitKind::running), main_in(WaitKind::sleep), main_in(WaitKind::lock, 7)}) {
        const CollectiveCall call = observed_call(waiting(false), wait, kNow);
        CHECK(call.number == 12);
        CHECK_FALSE(call.for_ms);
        CHECK(call.awaited.empty());
    }
}

TEST_CASE("published calls: a call that is over, or began in the future, has no length") {
    PublishedCall over = waiting(true);
    over.wait.reset();
    CHECK_FALSE(observed_call(over, main_in(WaitKind::running), kNow).for_ms);
    PublishedCall late = waiting(true);
    late.wait->since_ns = 200 * kSecond;
    CHECK(observed_call(late, main_in(WaitKind::lock), kNow).for_ms == 0);
}

TEST_CASE("published calls: ranks in a call of ours wait in a collective, also without any frame") {
    std::vector<Observation> ranks(4);
    for (int rank = 0; rank < 4; ++rank) {
        Observation& one = ranks[static_cast<std::size_t>(rank)];
        one.rank = rank;
        one.pid = 100 + rank;
        one.wait = main_in(rank == 3 ? WaitKind::pipe : WaitKind::lock);
        one.wait->is_timed = rank != 3;
        PublishedCall call = waiting(true);
        if (rank == 3) call.wait.reset();
        if (rank == 3) call.number = 11;
        one.call = observed_call(call, *one.wait, kNow);
    }
    const HangVerdict verdict = judge(ranks, {});
    CHECK(verdict.kind == VerdictKind::hang);
    CHECK(verdict.suspects == std::vector<int>{3});
    CHECK(verdict.waiting == std::vector<int>{0, 1, 2});
    CHECK(verdict.sentence.find("ranks 0-2 wait in all_reduce, call 12, for 31 s") != std::string::npos);
    INFO(verdict.sentence);
    CHECK(verdict.sentence.starts_with("rank 3 "));
}

}  // namespace ddprun
