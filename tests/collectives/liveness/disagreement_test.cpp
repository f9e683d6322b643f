// Disagreements that no message shows, and ranks that are awaited for long: what waiting ranks do about it,
// long before the deadline.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Calling = std::function<void(Communicator&)>;
using Code = CollectiveErrorCode;
using Floats = std::vector<float>;

// Far beyond the guard.
constexpr std::chrono::seconds kDeadline{300};
Calling reduce(std::size_t count) {
    return [=](Communicator& comm) {
        Floats data(count);
        comm.reduce(std::span(data), ReduceOp::sum, 0);
    };
}

void gather(Communicator& comm) {
    Floats whole(10 * static_cast<std::size_t>(comm.world_size()));
    comm.gather(Floats(10), std::span(whole), 0);
}

void scatter(Communicator& comm) {
    Floats part(10);
    comm.scatter(Floats(10 * static_cast<std::size_t>(comm.world_size())), std::span(part), 0);
}

// Rank 1 calls something else than the others. Where it gets through, it calls nothing more until they know.
void check_disagreement(int n, const Calling& right, const Calling& wrong) {
    CommunicatorOptions options;
    options.operation_timeout = kDeadline;
    std::latch others_know(n - 1);
    run_communicators(
        n,
        [&](Communicator& comm) {
            const auto begin = std::chrono::steady_clock::now();
            const auto error = expect_error([&] {
                if (comm.rank() == 1) {
                    wrong(comm);
                    others_know.wait();
                    comm.barrier();
                } else {
                    right(comm);
                    // Who only sends gets through.
                    comm.barrier();
                }
            });
            if (comm.rank() != 1) others_know.count_down();
            const auto& culprits = error.culprits();
            expect(error.code() == CollectiveErrorCode::mismatch, error.what());
            expect(std::find(culprits.begin(), culprits.end(), 1) != culprits.end(), error.what());
            expect(std::chrono::steady_clock::now() - begin < kHangGuard, "it was found at the deadline");
        },
        options);
}

// Nobody is named but rank 1, which has made a call more than the others. They make the same ten, then do
// `meanwhile` while rank 1 is in its own.
using Doing = std::function<void(Communicator&)>;

void all_reduce(Communicator& comm) {
    Floats data(10);
    comm.all_reduce(std::span(data), ReduceOp::sum);
}

void check_call_too_many(Code code, const std::string& text, const Doing& meanwhile,
                         std::chrono::milliseconds operation_timeout = kDeadline) {
    CommunicatorOptions options;
    options.operation_timeout = operation_timeout;
    for (const auto& hosts : {std::vector<std::string>(3), host_names(2, 2)}) {
        run_on_hosts(
            hosts,
            [&](Communicator& comm) {
                for (int i = 0; i < 10; ++i) all_reduce(comm);
                if (comm.rank() != 1) return meanwhile(comm);
                const auto error = expect_error(code, {1}, [&] { all_reduce(comm); });
                const std::string what = error.what();
                const std::string others = hosts.size() == 3 ? "ranks 0, 2 " : "ranks 0, 2, 3 ";
                expect(what.find("rank 1 called all_reduce(sum, 10 f32) as call 11, ") != std::string::npos,
                       what);
                expect(what.find(others + text) != std::string::npos, what);
            },
            options);
    }
}

// The standard error goes into a pipe meanwhile.
class CapturedError {
  public:
    CapturedError() : before_(::dup(STDERR_FILENO)) {
        if (::pipe(pipe_) != 0 || ::dup2(pipe_[1], STDERR_FILENO) < 0) throw std::runtime_error("no pipe");
    }
    ~CapturedError() {
        ::dup2(before_, STDERR_FILENO);
        for (const int fd : {pipe_[0], pipe_[1], before_}) ::close(fd);
    }
    CapturedError(const CapturedError&) = delete;
    CapturedError& operator=(const CapturedError&) = delete;

    std::string line() {
        std::string text;
        for (char c = 0; c != '\n' && ::read(pipe_[0], &c, 1) == 1;) text += c;
        return text;
    }

  private:
    int before_;
    int pipe_[2]{};
};

}  // namespace

TEST_CASE("a small reduce against a large one is found before the deadline", "[disagreement]") {
    for (const int n : {2, 4}) {
        check_disagreement(n, reduce(300'000), reduce(10));
        check_disagreement(n, reduce(10), reduce(300'000));
    }
}

TEST_CASE("gather against scatter is found before the deadline", "[disagreement]") {
    for (const int n : {2, 4}) {
        check_disagreement(n, gather, scatter);
        check_disagreement(n, scatter, gather);
    }
}

TEST_CASE("a call too many while the others are in another is blamed on the one rank", "[disagreement]") {
    check_call_too_many(Code::mismatch, "called barrier() as call 11", [](Communicator& comm) {
        expect_error(Code::mismatch, {1}, [&] { comm.barrier(); });
        expect_error(Code::mismatch, {1}, [&] { all_reduce(comm); });
    });
}

TEST_CASE("a call too many while the others finalize is blamed on the one rank", "[disagreement]") {
    check_call_too_many(Code::mismatch, "have made 10 calls and left", [](Communicator& comm) {
        expect_error(Code::mismatch, {1}, [&] { comm.finalize(kHangGuard); });
    });
}

TEST_CASE("a call too many while the others idle is blamed on the one rank at the deadline",
          "[disagreement]") {
    check_call_too_many(
        Code::timed_out, "have made 10 calls",
        [](Communicator& comm) {
            // No event tells this thread.
            while (comm.status().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            expect_error(Code::timed_out, {1}, [&] { comm.barrier(); });
        },
        std::chrono::seconds(5));
}

TEST_CASE("a call too many when the others have left is blamed on the one rank", "[disagreement]") {
    CommunicatorOptions options;
    options.operation_timeout = kDeadline;
    for (const auto& hosts : {std::vector<std::string>(3), host_names(2, 2)}) {
        run_on_hosts(
            hosts,
            [&](Communicator& comm) {
                for (int i = 0; i < 10; ++i) all_reduce(comm);
                if (comm.rank() != 1) return;
                const auto error = expect_error(Code::mismatch, {1}, [&] { all_reduce(comm); });
                expect(std::string(error.what()).find("have made 10 calls and left") != std::string::npos,
                       error.what());
            },
            options);
    }
}

TEST_CASE("one waiting rank gives notice of those that have not come, when asked to", "[disagreement]") {
    CapturedError captured;
    CommunicatorOptions options;
    options.notice_after = std::chrono::milliseconds(50);
    std::string line;
    run_communicators(
        2,
        [&](Communicator& comm) {
            if (comm.rank() == 1) line = captured.line();
            comm.barrier();
        },
        options);
    REQUIRE(line ==
            "ddprun: rank 0 waits in barrier() as call 1: after 0.050 s (CommunicatorOptions::notice_after) "
            "rank 1 has called nothing yet\n");
}
