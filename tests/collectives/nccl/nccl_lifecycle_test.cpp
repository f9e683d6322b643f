// How communicators of the NCCL backend are left, on NCCL's stand-in. Ranks are threads.
#include <latch>
#include <optional>

#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using std::chrono::milliseconds;

}  // namespace

TEST_CASE("finalize waits for what is in the stream, then leaves NCCL in order") {
    const StandIn standin;
    for (const int n : {1, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            DeviceVector<int> data(std::vector<int>(1000, 1));
            const Work work = comm.async().all_reduce(data.span(), ReduceOp::sum);
            comm.finalize(kHangGuard);
            expect(work.test() && data.host().front() == n, "it has ended");
            expect_error(Code::invalid_argument, {}, [&] { comm.barrier(); });
            expect_error(Code::invalid_argument, {}, [&] { comm.finalize(kHangGuard); });
        });
    }
}

TEST_CASE("finalize aborts what does not end on a device") {
    const StandIn standin;
    std::latch over(1);
    run_communicators(2, [&](Communicator& comm) {
        comm.barrier();
        if (comm.rank() == 1) return over.wait();
        const CountDown down{over};
        const Work work = comm.async().barrier();
        expect_error(Code::aborted, {0}, [&] { comm.finalize(milliseconds(100)); });
        expect_error(Code::aborted, {0}, [&] { work.wait(); });
    });
}

TEST_CASE("survivors of an ended communicator go on with an NCCL communicator of their own") {
    const StandIn standin;
    run_communicators(3, [](Communicator& comm) {
        DeviceVector<int> data(std::vector<int>(10, 1));
        comm.all_reduce(data.span(), ReduceOp::max);
        if (comm.rank() == 1) {
            comm.barrier();
            const Communicator ending = std::move(comm);
            return;
        }
        const auto error = expect_error(Code::peer_left, {1}, [&] {
            while (true) comm.barrier();
        });
        comm = comm.shrink(error.culprits());
        expect(comm.backend() == BackendChoice::nccl, "the same backend");
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.host().back() == 2, "of two ranks");
        comm.finalize(kHangGuard);
    });
}
