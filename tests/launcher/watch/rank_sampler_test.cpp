#include "launcher/watch/rank_sampler.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("rising sum: counters come, rise, go and fall, and their sum only rises") {
    RisingSum sum;
    CHECK(sum.sum() == 0);
    sum.take(1, 10);
    sum.take(2, 5);
    CHECK(sum.sum() == 15);
    sum.take(1, 12);
    CHECK(sum.sum() == 17);
    // The second is gone; another one with its number begins anew.
    sum.take(1, 12);
    sum.take(2, 3);
    CHECK(sum.sum() == 20);
    // One that fell is another one.
    sum.take(1, 4);
    CHECK(sum.sum() == 24);
}

TEST_CASE("rank sampler: what the kernel's files tell") {
    const ProcessBytes bytes = parse_process_bytes(
        "rchar: 12\nwchar: 34\nsyscr: 1\nsyscw: 2\nread_bytes: 56\nwrite_bytes: 78\ncancelled_write_bytes: 9\n");
    CHECK((bytes.rchar == 12 && bytes.wchar == 34 && bytes.read_bytes == 56 && bytes.write_bytes == 78));
    CHECK(parse_process_bytes("").wchar == 0);
    const ProcessTicks ticks =
        parse_process_ticks("7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 500 0 0");
    CHECK((ticks.own == 33 && ticks.of_children == 77));
    CHECK(parse_process_ticks("7 (a) S 1").own == 0);
}

TEST_CASE("rank sampler: a wait without a time limit") {
    ThreadView thread;
    CHECK_FALSE(waits_untimed(thread));
    thread.system_call = SYS_read;
    CHECK(waits_untimed(thread));
    thread.system_call = SYS_getpid;
    CHECK_FALSE(waits_untimed(thread));
    thread.system_call = SYS_clock_nanosleep;
    CHECK_FALSE(waits_untimed(thread));
    thread.system_call = SYS_futex;
    CHECK(waits_untimed(thread));
    thread.arguments[3] = 1;  // a time
    CHECK_FALSE(waits_untimed(thread));
}

TEST_CASE("rank sampler: this process is measured, and one that has ended is not") {
    AgentStatus node{.world_size = 2};
    node.workers = {{.rank = 3, .pid = ::getpid()}, {.rank = 4, .pid = ::getpid(), .exit_code = 0}};
    RankSampler sampler("");
    const NodeSample first = sampler.sample(node);
    REQUIRE(first.ranks.size() == 1);
    CHECK(first.ranks.at(3).file_bytes > 0);
    // Sampling reads files itself.
    CHECK(sampler.sample(node).ranks.at(3).file_bytes > first.ranks.at(3).file_bytes);
}

}  // namespace ddprun
