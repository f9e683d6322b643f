// What becomes of calls that wait inside NCCL for other ranks, its communicators being blocking ones: in the
// making, in operations, in the end. On NCCL's stand-in; ranks are threads.
#include <chrono>
#include <filesystem>
#include <iterator>
#include <latch>
#include <thread>

#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

void nobody_runs(Communicator&) { throw std::runtime_error("a communicator was made"); }

int living() { return standin_function<decltype(standin_living)>("standin_living")(); }

auto count_threads() { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); }

// What is stuck in its making or its end comes out; waits until all has ended.
void let_go_and_await_the_end() {
    standin_function<decltype(standin_let_go)>("standin_let_go")();
    standin_function<decltype(standin_await_none_living)>("standin_await_none_living")();
}

}  // namespace

TEST_CASE("communicators are blocking ones, and all else is NCCL's own choice") {
    const StandIn standin;
    const Makings makings;
    const int before = living();
    run_communicators(2, [](Communicator& comm) { comm.barrier(); });
    const auto made = makings.since();
    REQUIRE(made.size() == 2);
    for (const standin::Making& making : made) {
        CHECK(making.config.blocking == 1);
        CHECK(making.config.max_ctas == NcclConfig::kUndefined);
        CHECK(making.config.net_name == nullptr);
        CHECK(std::string(making.algorithms.data()).empty());
    }
    CHECK(living() == before);
}

TEST_CASE("an environment that asks for non-blocking communicators is named") {
    StandIn standin;
    standin.set("NCCL_COMM_BLOCKING", "0");
    run_ranks(1, [](int) {
        const auto before = count_threads();
        const auto error = expect_error([] { run_communicators(2, nobody_runs); });
        expect(error.code() == Code::system, error.what());
        expect_text(error, "was told to make a non-blocking communicator: unset NCCL_COMM_BLOCKING");
        // Whoever still makes one reads the environment, which changes with the next test.
        const auto guard = std::chrono::steady_clock::now() + kHangGuard;
        while (count_threads() > before) {
            expect(std::chrono::steady_clock::now() < guard, "the makings end");
            std::this_thread::yield();
        }
    });
}

TEST_CASE("first operations connect the ranks, which wait for each other") {
    const StandIn standin("connects");
    run_communicators(kStandInRanks, [](Communicator& comm) {
        DeviceVector<int> data({comm.rank()});
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.host()[0] == 3, "the sum");
    });
}

TEST_CASE("a call that waits inside NCCL for a rank that does not come names it at its deadline") {
    const StandIn standin("connects");
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(5);
    std::latch over(kStandInRanks);
    run_communicators(
        kStandInRanks,
        [&](Communicator& comm) {
            if (comm.rank() != 1) {
                DeviceVector<float> data({1, 2, 3});
                // Started: its Work comes out of the call that waits.
                const Work work = comm.async().all_reduce(data.span(), ReduceOp::sum);
                const auto error = expect_error(Code::timed_out, {1}, [&] { work.wait(); });
                expect_text(error, "rank 1 has called nothing yet");
                expect_error(Code::timed_out, {1}, [&] { comm.barrier(); });
            }
            over.arrive_and_wait();
        },
        options);
}

TEST_CASE("abort ends a call that waits inside NCCL, from any rank and thread") {
    for (const int aborting : {0, 1}) {
        const StandIn standin("connects");
        std::latch calling(1);
        std::latch over(1);
        run_communicators(2, [&](Communicator& comm) {
            // The calling rank's own thread is inside.
            std::jthread other;
            if (comm.rank() == aborting) {
                other = std::jthread([&] {
                    calling.wait();
                    comm.abort("enough");
                });
            }
            if (comm.rank() == 1) return over.wait();
            const CountDown at_end(over);
            DeviceVector<float> data({1, 2, 3});
            calling.count_down();
            const auto error =
                expect_error(Code::aborted, {aborting}, [&] { comm.all_reduce(data.span(), ReduceOp::sum); });
            expect_text(error, "enough");
        });
    }
}

TEST_CASE("a rank that leaves while the others connect is named") {
    const StandIn standin("connects");
    run_communicators(2, [](Communicator& comm) {
        if (comm.rank() == 0) return;
        DeviceVector<float> data({1, 2, 3});
        expect_error(Code::peer_left, {0}, [&] { comm.all_reduce(data.span(), ReduceOp::sum); });
    });
}

TEST_CASE("a making that does not end is given up, and what comes of it later is aborted") {
    CommunicatorOptions options;
    options.join_timeout = std::chrono::seconds(3);
    {
        const StandIn standin("init_stuck@1");
        run_ranks(1, [&](int) {
            const auto error = expect_error(Code::timed_out, {},
                                            [&] { run_communicators(kStandInRanks, nobody_runs, options); });
            expect_text(error, "after 3000 ms (CommunicatorOptions::join_timeout) NCCL on rank ");
            expect_text(error, "has not made its communicator");
        });
    }
    CHECK(living() == kStandInRanks);
    // What was left behind is in nobody's way.
    const StandIn standin;
    run_communicators(kStandInRanks, [](Communicator& comm) { comm.barrier(); });
    CHECK(living() == kStandInRanks);
    let_go_and_await_the_end();
}

TEST_CASE("an end in order that does not come about is given up, and left to itself") {
    const StandIn standin("finalize_stuck@0");
    run_communicators(2, [](Communicator& comm) { comm.barrier(); });
    CHECK(living() == 1);
    let_go_and_await_the_end();
}
