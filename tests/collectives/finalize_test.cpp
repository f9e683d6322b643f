// finalize(): leaving together. Ranks are threads here; see shrink_test for processes that die meanwhile.
#include <atomic>
#include <chrono>
#include <latch>
#include <limits>
#include <thread>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using std::chrono::milliseconds;

void expect_refused(const std::function<void()>& body) {
    const auto error = expect_error(Code::invalid_argument, {}, body);
    expect(std::string(error.what()).find("has been finalized") != std::string::npos, error.what());
}

}  // namespace

TEST_CASE("nobody gets through finalize before all have come to it", "[finalize]") {
    for (const int n : {2, 3, 4}) {
        std::atomic<int> came{0};
        run_communicators(n, [&](Communicator& comm) {
            comm.barrier();
            // The last rank gives the others every chance to be too early.
            for (int i = 0; comm.rank() == n - 1 && i < 1000; ++i) std::this_thread::yield();
            ++came;
            comm.finalize(kHangGuard);
            expect(came == n, "all have come");
        });
    }
}

TEST_CASE("after finalize every call is refused, and nothing is done by the destructor", "[finalize]") {
    for (const int n : {1, 2}) {
        run_communicators(n, [&](Communicator& comm) {
            std::vector<int> data(2 * static_cast<std::size_t>(n), 1);
            auto shared = comm.allocate<int>(100);
            comm.finalize();
            expect_refused([&] { comm.all_reduce(std::span(data), ReduceOp::sum); });
            expect_refused([&] { comm.barrier(); });
            expect_refused([&] { comm.async().barrier(); });
            expect_refused([&] { comm.attempt().barrier().throw_if_failed(); });
            expect_refused([&] { comm.status().throw_if_failed(); });
            expect_refused([&] { comm.split(0); });
            expect_refused([&] { comm.allocate<int>(1); });
            expect_refused([&] { comm.finalize(); });
            expect_refused([&] { comm.finalize(kHangGuard); });
            expect_refused([&] { comm.abort("late"); });
            expect(comm.world_size() == n && comm.rank() < n && comm.local_world_size() == n, "facts stay");
            expect(comm.backend() == BackendChoice::cpu && comm.device() == -1, "facts stay");
            shared.span()[99] = 7;  // memory lives as long as its object
        });
    }
}

TEST_CASE("a rank that does not come to finalize is named, and can leave later", "[finalize]") {
    std::latch gone(2);
    run_communicators(3, [&](Communicator& comm) {
        comm.barrier();
        if (comm.rank() == 1) {
            gone.wait();
            return comm.finalize(kHangGuard);
        }
        const CountDown down{gone};
        const auto error = expect_error(Code::timed_out, {1}, [&] { comm.finalize(milliseconds(3000)); });
        expect(std::string(error.what()).find("within 3000 ms: 1") != std::string::npos, error.what());
        expect_refused([&] { comm.barrier(); });
    });
}

TEST_CASE("finalize(0) leaves without waiting", "[finalize]") {
    std::latch gone(1);
    run_communicators(2, [&](Communicator& comm) {
        if (comm.rank() == 1) return gone.wait();
        const CountDown down{gone};
        expect_error(Code::timed_out, {1}, [&] { comm.finalize(milliseconds(0)); });
    });
}

TEST_CASE("finalize counts a rank as come that has destroyed its communicator", "[finalize]") {
    run_communicators(3, [](Communicator& comm) {
        if (comm.rank() == 2) {
            const Communicator ending = std::move(comm);
        } else {
            comm.finalize(kHangGuard);
        }
    });
}

TEST_CASE("who calls a collective when another has finalized is told", "[finalize]") {
    run_communicators(2, [](Communicator& comm) {
        // Rank 0's finalize hears that its leaving broke something.
        if (comm.rank() == 0) {
            expect_error(Code::peer_left, {0}, [&] { comm.finalize(kHangGuard); });
        } else {
            expect_error(Code::peer_left, {0}, [&] { comm.barrier(); });
            expect_error(Code::peer_left, {0}, [&] { comm.finalize(kHangGuard); });
        }
    });
}

TEST_CASE("finalize of a communicator that has ended says why", "[finalize]") {
    for (const int n : {1, 3}) {
        run_communicators(n, [](Communicator& comm) {
            if (comm.rank() == 0) comm.abort("enough");
            expect_error(Code::aborted, {0}, [&] { comm.finalize(kHangGuard); });
            expect_refused([&] { comm.barrier(); });
        });
    }
}

TEST_CASE("abort from another thread ends a finalize that waits", "[finalize]") {
    std::latch over(1);
    run_communicators(2, [&](Communicator& comm) {
        if (comm.rank() == 1) return over.wait();
        const CountDown down{over};
        std::thread other([&] { comm.abort("no more"); });
        expect_error(Code::aborted, {0}, [&] { comm.finalize(kHangGuard); });
        other.join();
    });
}

TEST_CASE("finalize waits for operations that were started", "[finalize]") {
    run_communicators(2, [](Communicator& comm) {
        std::vector<float> data(2'000'000, 1);
        std::vector<Work> works;
        for (int i = 0; i < 5; ++i) works.push_back(comm.async().all_reduce(std::span(data), ReduceOp::max));
        comm.finalize(kHangGuard);
        for (const Work& work : works) {
            expect(work.test(), "it has ended");
            work.wait();
        }
    });
}

TEST_CASE("operations that were started and do not end are aborted by finalize", "[finalize]") {
    std::latch over(1);
    run_communicators(2, [&](Communicator& comm) {
        comm.barrier();
        if (comm.rank() == 1) {
            over.wait();
            // Rank 0 has entered the first barrier, whose message may be here before the news of the end.
            expect_error(Code::aborted, {0}, [&] {
                comm.barrier();
                comm.barrier();
            });
            return;
        }
        const CountDown down{over};
        const Work work = comm.async().barrier();
        const auto error = expect_error(Code::aborted, {0}, [&] { comm.finalize(milliseconds(100)); });
        expect(std::string(error.what()).find("have not ended") != std::string::npos, error.what());
        expect_error(Code::aborted, {0}, [&] { work.wait(); });
    });
}

TEST_CASE("a deadline that is none is refused, and the communicator stays usable", "[finalize]") {
    run_communicators(2, [](Communicator& comm) {
        for (const milliseconds wrong : {milliseconds(-1), milliseconds::max(), milliseconds::min()}) {
            expect_error(Code::invalid_argument, {}, [&] { comm.finalize(wrong); });
        }
        comm.barrier();
        comm.finalize(kHangGuard);
    });
    Communicator first = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
    Communicator second = std::move(first);
    expect_error(Code::invalid_argument, {}, [&] { first.finalize(); });
    second.finalize();
}

TEST_CASE("parts of a communicator are finalized each for itself", "[finalize]") {
    run_communicators(4, [](Communicator& comm) {
        auto part = comm.split(comm.rank() % 2);
        part->finalize(kHangGuard);
        comm.barrier();
        comm.finalize(kHangGuard);
    });
}

TEST_CASE("ranks on several hosts leave together", "[finalize]") {
    run_on_hosts(host_names(2, 2), [](Communicator& comm) {
        comm.barrier();
        comm.finalize(kHangGuard);
    });
}

TEST_CASE("lists of ranks survive their encoding", "[finalize]") {
    using Ranks = std::vector<int>;
    for (const Ranks& ranks : {Ranks{}, Ranks{0}, Ranks{3, 14, 15}, Ranks{2'000'000'000}}) {
        REQUIRE(decode_ranks(encode_ranks(ranks)) == ranks);
    }
    for (const char* wrong : {"x", "1,", ",1", "1;2", "-1", "99999999999", "1,,2"}) {
        REQUIRE_FALSE(decode_ranks(wrong).has_value());
    }
    REQUIRE(list_of_ranks({1, 2}) == "1, 2");
    REQUIRE(list_of_ranks(Ranks(18, 5)).find("5 and 2 more") != std::string::npos);
}
