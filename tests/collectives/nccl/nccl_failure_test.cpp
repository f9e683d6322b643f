// What NCCL and its ranks can do wrong, on NCCL's stand-in. Ranks are threads; see nccl_killed_test.cpp for
// processes.
#include <latch>

#include "collectives/group.hpp"
#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

// All ranks reduce for ever: this rank's error.
CollectiveError reduce_until_error(Communicator& comm) {
    DeviceVector<float> data(std::vector<float>(1000, 1));
    return expect_error([&] {
        while (true) comm.all_reduce(data.span(), ReduceOp::max);
    });
}

// The same error on all ranks, in its first call and later ones.
void expect_everywhere(const std::string& faults, CollectiveErrorCode code, const std::vector<int>& culprits,
                       const std::string& text, const CommunicatorOptions& options = {}) {
    const StandIn standin(faults);
    run_communicators(
        kStandInRanks,
        [&](Communicator& comm) {
            const CollectiveError error = reduce_until_error(comm);
            expect(error.code() == code && error.culprits() == culprits,
                   std::string(name_of(error.code())) + " was not expected: " + error.what());
            expect_text(error, text);
            const CollectiveError later = expect_error(code, culprits, [&] { comm.barrier(); });
            expect_text(later, text);
        },
        options);
}

// Nobody can make a communicator: every rank's error.
void expect_no_communicator(const std::string& faults, CollectiveErrorCode code,
                            const std::vector<int>& culprits, const std::string& text,
                            const CommunicatorOptions& options = {}) {
    const StandIn standin(faults);
    run_ranks(1, [&](int) {
        std::vector<std::string> texts;
        const auto error = expect_error(code, culprits, [&] {
            run_communicators(
                kStandInRanks,
                [](Communicator& comm) {
                    // On a rank where NCCL was done before the other failed.
                    comm.barrier();
                    throw std::runtime_error("a communicator was made");
                },
                options);
        });
        expect_text(error, text);
    });
}

}  // namespace

TEST_CASE("an asynchronous error of NCCL on one rank is an error on all") {
    expect_everywhere(
        "async_error:5@1", CollectiveErrorCode::system, {1},
        "NCCL on rank 1: remote process exited or there was a network error (the stand-in's last words)");
}

TEST_CASE("a call that NCCL refuses is an error on all ranks") {
    expect_everywhere("call_fails:2@2", CollectiveErrorCode::system, {2},
                      "NCCL on rank 2: unhandled system error");
}

TEST_CASE("an error of the device's stream is an error on all ranks") {
    expect_everywhere("stream_fails:4@0", CollectiveErrorCode::system, {0},
                      "an illegal memory access was encountered");
}

TEST_CASE("an operation that does not end becomes an error at its deadline") {
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(5);
    expect_everywhere("hang:3", CollectiveErrorCode::timed_out, {},
                      "all ranks have come, but the operation does not end", options);
}

TEST_CASE("a call that waits inside NCCL for ever becomes an error at its deadline") {
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(5);
    expect_everywhere("stuck:3", CollectiveErrorCode::timed_out, {},
                      "all ranks have come, but the operation does not end", options);
}

TEST_CASE("an abort that never returns ends the communicator all the same, and says so") {
    const StandIn standin("async_error:2@0,abort_hangs@1");
    run_communicators(kStandInRanks, [](Communicator& comm) {
        const CollectiveError error = reduce_until_error(comm);
        expect(error.code() == CollectiveErrorCode::system && error.culprits() == std::vector<int>{0},
               error.what());
        const bool told = std::string(error.what()).find("left to the launcher to kill") != std::string::npos;
        expect(told == (comm.rank() == 1), error.what());
        const CollectiveError later = expect_error([&] { comm.barrier(); });
        expect((std::string(later.what()).find("left to the launcher") != std::string::npos) ==
                   (comm.rank() == 1),
               later.what());
    });
}

TEST_CASE("abort ends operations in progress on all ranks") {
    const StandIn standin("hang:2");
    std::latch in_second(kStandInRanks);
    run_communicators(kStandInRanks, [&](Communicator& comm) {
        DeviceVector<float> data({1, 2, 3});
        comm.all_reduce(data.span(), ReduceOp::sum);
        const Work work = comm.async().all_reduce(data.span(), ReduceOp::sum);
        in_second.arrive_and_wait();
        if (comm.rank() == 1) comm.abort("enough");
        const auto error = expect_error(CollectiveErrorCode::aborted, {1}, [&] { work.wait(); });
        expect_text(error, "enough");
        expect(error.sequence() == 2, "the sequence of the call in progress");
        expect(work.test() && work.error(), "the Work has ended");
        expect_error(CollectiveErrorCode::aborted, {1}, [&] { comm.async().barrier().wait(); });
    });
}

TEST_CASE("abort of a rank alone ends its operations") {
    const StandIn standin("hang:1");
    run_communicators(1, [](Communicator& comm) {
        DeviceVector<float> data({1});
        const Work work = comm.async().all_reduce(data.span(), ReduceOp::sum);
        expect(!work.wait_for(std::chrono::milliseconds(1)), "it hangs");
        comm.abort("enough");
        expect_error(CollectiveErrorCode::aborted, {0}, [&] { work.wait(); });
    });
}

TEST_CASE("a rank that makes another call is found without waiting for the deadline") {
    const StandIn standin;
    run_communicators(kStandInRanks, [](Communicator& comm) {
        DeviceVector<float> data(std::vector<float>(8, 1));
        const auto part = data.span().first(comm.rank() == 2 ? 8 : 7);
        const auto error = expect_error([&] { comm.all_reduce(part, ReduceOp::sum); });
        expect(error.code() == CollectiveErrorCode::mismatch, error.what());
        expect_text(error, "all_reduce(sum, 8 f32)");
        expect_text(error, "all_reduce(sum, 7 f32)");
    });
}

TEST_CASE("a rank that does not come is named at the deadline") {
    const StandIn standin;
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(5);
    std::latch over(kStandInRanks);
    run_communicators(
        kStandInRanks,
        [&](Communicator& comm) {
            if (comm.rank() != 1) {
                DeviceVector<float> data({1, 2, 3});
                const auto error = expect_error(CollectiveErrorCode::timed_out, {1},
                                                [&] { comm.all_reduce(data.span(), ReduceOp::sum); });
                expect_text(error, "rank 1 has called nothing yet");
            }
            over.arrive_and_wait();
        },
        options);
}

TEST_CASE("of the peers of a group that does not end, those that exchange nothing are named") {
    const StandIn standin;
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(5);
    std::latch over(2);
    run_communicators(
        kStandInRanks,
        [&](Communicator& comm) {
            DeviceVector<float> a({1, 2, 3});
            DeviceVector<float> b({1, 2, 3});
            if (comm.rank() == 1) {
                over.wait();
                expect_error(CollectiveErrorCode::timed_out, {1}, [&] { comm.barrier(); });
                return;
            }
            // Rank 0 waits for both, and rank 2 for rank 1.
            Group group(comm);
            if (comm.rank() == 0) group.recv(b.span(), 2);
            group.recv(a.span(), 1);
            const CountDown at_end(over);
            const auto error =
                expect_error(CollectiveErrorCode::timed_out, {1}, [&] { group.start().wait(); });
            expect_text(error, "rank 1 has called nothing yet");
        },
        options);
}

TEST_CASE("the peers of a group that have all left are named") {
    const StandIn standin;
    run_communicators(kStandInRanks, [](Communicator& comm) {
        if (comm.rank() != 0) return;
        DeviceVector<float> a({1, 2, 3});
        DeviceVector<float> b({1, 2, 3});
        Group group(comm);
        group.recv(a.span(), 2);
        group.send(b.span(), 1);
        expect_error(CollectiveErrorCode::peer_left, {1}, [&] { group.run(); });
    });
}

TEST_CASE("a rank that leaves early is named") {
    const StandIn standin;
    run_communicators(2, [](Communicator& comm) {
        comm.barrier();
        if (comm.rank() == 0) return;
        DeviceVector<float> data({1, 2, 3});
        const auto error = expect_error(CollectiveErrorCode::peer_left, {0},
                                        [&] { comm.all_reduce(data.span(), ReduceOp::sum); });
        expect_text(error, "rank 0 has made 1 call and left");
    });
}

TEST_CASE("a rank that leaves instead of sending is named") {
    const StandIn standin;
    run_communicators(2, [](Communicator& comm) {
        comm.barrier();
        if (comm.rank() == 0) return;
        DeviceVector<float> data({1, 2, 3});
        expect_error(CollectiveErrorCode::peer_left, {0}, [&] { comm.recv(data.span(), 0); });
    });
}

TEST_CASE("operations in progress are waited for by the destructor") {
    const StandIn standin("connects");
    std::vector<Work> works(kStandInRanks);
    run_communicators(kStandInRanks, [&](Communicator& comm) {
        DeviceVector<float> data(std::vector<float>(100'000, 1));
        Communicator own = std::move(comm);
        const auto rank = static_cast<std::size_t>(own.rank());
        for (int i = 0; i < 20; ++i) works[rank] = own.async().all_reduce(data.span(), ReduceOp::avg);
        const Communicator ended = std::move(own);
    });
    for (const Work& work : works) CHECK((work.test() && !work.error()));
}

TEST_CASE("making a communicator that fails on one rank fails on all") {
    expect_no_communicator("init_fails@1", CollectiveErrorCode::system, {1},
                           "NCCL on rank 1 cannot make its communicator: unhandled cuda error");
    expect_no_communicator("init_error@2", CollectiveErrorCode::system, {2},
                           "NCCL on rank 2 cannot make its communicator: remote process exited");
}

TEST_CASE("a driver that cannot be used is named") {
    expect_no_communicator("cuda_init:100", CollectiveErrorCode::system, {0},
                           "rank 0 cannot use NCCL: the CUDA driver, opened as " DDPRUN_STANDIN_NCCL
                           ", cannot be used (no CUDA-capable device is detected)");
    expect_no_communicator("devices:0", CollectiveErrorCode::system, {0}, "sees no device");
    expect_no_communicator("devices:2", CollectiveErrorCode::system, {2},
                           "rank 2 cannot use NCCL: there is no CUDA device 2, this process sees 2");
}

TEST_CASE("NCCL that is too old is named") {
    expect_no_communicator("version:21805", CollectiveErrorCode::system, {0},
                           "is version 2.18.5, but at least 2.19.0 is needed: set DDPRUN_NCCL_LIBRARY");
}
