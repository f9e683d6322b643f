// What the others see when a rank leaves, does not come, aborts, or calls something else. Ranks are threads
// here; see killed_rank_test for processes that die.
#include <algorithm>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

void all_reduce(Communicator& comm, std::size_t count) {
    std::vector<float> data(count);
    comm.all_reduce(std::span(data), ReduceOp::sum);
}

constexpr std::size_t kSmall = 10;
constexpr std::size_t kLarge = 300'000;

using Calling = std::function<void(Communicator&)>;

// Rank 1 makes the second call of each pair, all others the first.
void check_disagreements(const std::vector<std::pair<Calling, Calling>>& disagreements) {
    CommunicatorOptions options;
    options.operation_timeout = kHangGuard;  // none of them waits for it
    for (const auto& [right, wrong] : disagreements) {
        for (const int n : {2, 4}) {
            run_communicators(
                n,
                [&, right = right, wrong = wrong](Communicator& comm) {
                    const auto error = expect_error([&] {
                        (comm.rank() == 1 ? wrong : right)(comm);
                        // Who only sends has nothing to compare with: it finds out in a later call.
                        for (int i = 0; i < 3; ++i) comm.barrier();
                    });
                    const auto& culprits = error.culprits();
                    expect(error.code() == Code::mismatch, error.what());
                    expect(std::find(culprits.begin(), culprits.end(), 1) != culprits.end(), error.what());
                    expect(std::string(error.what()).find("called") != std::string::npos ||
                               std::string(error.what()).find("is at") != std::string::npos,
                           error.what());
                },
                options);
        }
    }
}

}  // namespace

TEST_CASE("a rank that leaves early is named, and is not called dead", "[failure]") {
    for (const std::size_t count : {kSmall, kLarge}) {
        run_communicators(4, [&](Communicator& comm) {
            if (comm.rank() == 2) {
                comm.barrier();
                return;
            }
            // One that passed the barrier and misses rank 2 ends the communicator for those still inside it.
            const auto error = expect_error(Code::peer_left, {2}, [&] {
                comm.barrier();
                all_reduce(comm, count);
            });
            expect(error.operation() == (error.sequence() == 2 ? "all_reduce" : "barrier"),
                   "the call is named");
            expect_error(Code::peer_left, {2}, [&] { comm.barrier(); });
        });
    }
}

TEST_CASE("ranks may leave one after the other when their work is done", "[failure]") {
    for (int round = 0; round < 20; ++round) {
        run_communicators(5, [&](Communicator& comm) {
            all_reduce(comm, kLarge / 10);
            std::vector<int> data(1000);
            // Rank 0 and rank 3 go on among themselves while the others are gone.
            if (comm.rank() == 0) comm.send(std::span(data), 3);
            if (comm.rank() == 3) comm.recv(std::span(data), 0);
        });
    }
}

TEST_CASE("a peer that left is named by send and recv too", "[failure]") {
    run_communicators(3, [&](Communicator& comm) {
        std::vector<int> data(10);
        if (comm.rank() == 1) return;
        if (comm.rank() == 0) expect_error(Code::peer_left, {1}, [&] { comm.recv(std::span(data), 1); });
        if (comm.rank() == 2) expect_error(Code::peer_left, {1}, [&] { comm.barrier(); });
    });
}

TEST_CASE("ranks that do not come in time are named on every rank", "[failure]") {
    for (const std::size_t count : {kSmall, kLarge}) {
        std::latch given_up(3);
        run_communicators(
            4,
            [&](Communicator& comm) {
                comm.barrier();
                if (comm.rank() == 2) {
                    given_up.wait();
                    // All it needs for the first call may have come before the notice that the others gave
                    // up.
                    expect_error(Code::timed_out, {2}, [&] {
                        all_reduce(comm, count);
                        comm.barrier();
                    });
                    return;
                }
                const CountDown at_end{given_up};
                const auto error = expect_error(Code::timed_out, {2}, [&] { all_reduce(comm, count); });
                expect(
                    std::string(error.what()).find("rank 2 is at barrier() as call 1") != std::string::npos,
                    error.what());
            },
            short_operations());
    }
}

TEST_CASE("a message that nobody sends times out and names the peer", "[failure]") {
    std::latch given_up(1);
    run_communicators(
        2,
        [&](Communicator& comm) {
            std::vector<int> data(10);
            if (comm.rank() == 0) {
                const CountDown at_end{given_up};
                expect_error(Code::timed_out, {1}, [&] { comm.recv(std::span(data), 1); });
            } else {
                given_up.wait();
            }
        },
        short_operations());
}

TEST_CASE("abort from another thread ends the blocked calls of all ranks", "[failure]") {
    run_communicators(4, [&](Communicator& comm) {
        std::thread aborter;
        if (comm.rank() == 1) aborter = std::thread([&] { comm.abort("enough"); });
        std::vector<int> data(10);
        const auto error = expect_error([&] {
            // Nobody sends: everybody is blocked until the abort.
            comm.recv(std::span(data), (comm.rank() + 1) % 4);
        });
        if (aborter.joinable()) aborter.join();
        expect(error.code() == Code::aborted && error.culprits() == std::vector<int>{1}, error.what());
        expect(std::string(error.what()).find("rank 1 aborted: enough") != std::string::npos, error.what());
        expect_error(Code::aborted, {1}, [&] { comm.barrier(); });
    });
}

TEST_CASE("abort of a rank alone ends it", "[failure]") {
    run_communicators(1, [&](Communicator& comm) {
        comm.barrier();
        comm.abort("");
        expect_error(Code::aborted, {0}, [&] { comm.barrier(); });
    });
}

TEST_CASE("ranks that call different things are told who called what", "[failure]") {
    const auto reduce = [](std::size_t count, ReduceOp op) {
        return [=](Communicator& comm) {
            std::vector<float> data(count);
            comm.all_reduce(std::span(data), op);
        };
    };
    const auto broadcast = [](std::size_t count, int root) {
        return [=](Communicator& comm) {
            std::vector<double> data(count);
            comm.broadcast(std::span(data), root);
        };
    };
    const auto barrier = [](Communicator& comm) { comm.barrier(); };
    check_disagreements({
        {reduce(kSmall, ReduceOp::sum), reduce(kSmall + 1, ReduceOp::sum)},
        {reduce(kSmall, ReduceOp::sum), reduce(kSmall, ReduceOp::max)},
        {reduce(kLarge, ReduceOp::sum), reduce(kLarge + 1, ReduceOp::sum)},
        {reduce(kLarge, ReduceOp::sum), reduce(kSmall, ReduceOp::sum)},
        {reduce(kSmall, ReduceOp::sum), barrier},
        {broadcast(kSmall, 0), broadcast(kSmall, 1)},
        {broadcast(kLarge, 0), broadcast(kLarge, 1)},
        {broadcast(kSmall, 0), reduce(kSmall, ReduceOp::sum)},
    });
}

TEST_CASE("so are ranks that call different things with a root, or swap different parts", "[failure]") {
    using Vector = std::vector<float>;
    const auto reduce = [](std::size_t count, ReduceOp op, int root) {
        return [=](Communicator& comm) {
            Vector data(count);
            comm.reduce(std::span(data), op, root);
        };
    };
    const auto moving = [](auto verb, std::size_t count, int root) {
        return [=](Communicator& comm) {
            Vector whole(count * static_cast<std::size_t>(comm.world_size()));
            Vector part(count);
            verb(comm, whole, part, root);
        };
    };
    const auto gather = [](Communicator& comm, Vector& whole, Vector& part, int root) {
        comm.gather(part, std::span(whole), root);
    };
    const auto scatter = [](Communicator& comm, Vector& whole, Vector& part, int root) {
        comm.scatter(whole, std::span(part), root);
    };
    const auto all_to_all = [](Communicator& comm, Vector& whole, Vector&, int) {
        comm.all_to_all(whole, std::span(whole));
    };
    check_disagreements({
        {reduce(kSmall, ReduceOp::sum, 0), reduce(kSmall, ReduceOp::avg, 0)},
        {reduce(kSmall, ReduceOp::sum, 0), reduce(kSmall, ReduceOp::sum, 1)},
        {reduce(kLarge, ReduceOp::sum, 0), reduce(kLarge, ReduceOp::max, 0)},
        {moving(gather, kSmall, 0), moving(gather, kSmall, 1)},
        {moving(gather, kSmall, 0), moving(gather, kSmall + 1, 0)},
        {moving(scatter, kSmall, 0), moving(scatter, kSmall + 1, 0)},
        {moving(scatter, kSmall, 0), moving(scatter, kSmall, 1)},
        {moving(all_to_all, kSmall, -1), moving(all_to_all, kSmall + 1, -1)},
        {moving(all_to_all, kLarge, -1), moving(gather, kLarge, 0)},
    });
}

TEST_CASE("a message of another size than expected is a mismatch", "[failure]") {
    run_communicators(2, [&](Communicator& comm) {
        std::vector<int> data(10 + static_cast<std::size_t>(comm.rank()));
        if (comm.rank() == 0) {
            comm.send(std::span(data), 1);
            expect_error(Code::mismatch, {0, 1}, [&] { comm.barrier(); });
        } else {
            const auto error = expect_error(Code::mismatch, {0, 1}, [&] { comm.recv(std::span(data), 0); });
            expect(std::string(error.what()).find("rank 0 called send(10 i32)") != std::string::npos,
                   error.what());
        }
    });
}
