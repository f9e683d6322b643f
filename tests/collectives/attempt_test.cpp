// The forms of the operations that return a Status, and what status() says. Ranks are threads here.
#include <cstddef>
#include <functional>
#include <latch>
#include <limits>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

void expect_ok(const Status& status) { expect(status.ok(), std::string(status.text())); }

void expect_refused(const Status& status, const std::string& text) {
    expect(status.code() == Code::invalid_argument,
           "expected invalid_argument: " + std::string(status.text()));
    expect(status.text().find(text) != std::string_view::npos,
           "expected '" + text + "' in: " + std::string(status.text()));
}

}  // namespace

TEST_CASE("every operation can be attempted", "[attempt]") {
    run_communicators(3, [](Communicator& comm) {
        const int rank = comm.rank();
        std::vector<int> mine{rank, rank + 1};
        std::vector<int> out(2);
        std::vector<int> all(6);
        std::vector<int> others(6);
        auto attempt = comm.attempt();
        expect_ok(attempt.all_reduce(std::span(mine), ReduceOp::sum));
        expect(mine == std::vector{3, 6}, "all_reduce");
        expect_ok(attempt.all_reduce(mine, std::span(out), ReduceOp::max));
        expect_ok(attempt.broadcast(std::span(out), 2));
        expect_ok(attempt.all_gather(out, std::span(all)));
        expect(all == std::vector{3, 6, 3, 6, 3, 6}, "all_gather");
        expect_ok(attempt.reduce_scatter(all, std::span(out), ReduceOp::sum));
        expect(out == std::vector{9, 18}, "reduce_scatter");
        expect_ok(attempt.reduce(mine, std::span(out), ReduceOp::sum, 1));
        expect_ok(attempt.reduce(std::span(mine), ReduceOp::min, 1));
        expect_ok(attempt.gather(mine, std::span(all), 1));
        expect_ok(attempt.scatter(all, std::span(out), 1));
        expect_ok(attempt.all_to_all(all, std::span(others)));
        expect_ok(attempt.barrier());
        if (rank == 0) expect_ok(attempt.send(std::span(mine), 2));
        if (rank == 2) expect_ok(attempt.recv(std::span(out), 0));
        expect(rank != 2 || out == mine, "recv");
        expect_ok(comm.status());
    });
}

TEST_CASE("a wrong attempt is refused, and the communicator stays usable", "[attempt]") {
    run_communicators(2, [](Communicator& comm) {
        std::vector<int> two(2);
        std::vector<int> three(3);
        std::vector<int> more(3);
        auto attempt = comm.attempt();
        expect_refused(attempt.all_reduce(two, std::span(three), ReduceOp::sum), "but output of 3");
        expect_refused(attempt.all_gather(two, std::span(three)), "3 elements are not 2 ranks times 2");
        expect_refused(attempt.reduce_scatter(three, std::span(two), ReduceOp::sum), "3 elements are not 2");
        expect_refused(attempt.all_to_all(two, std::span(three)), "but output of 3");
        expect_refused(attempt.all_to_all(three, std::span(more)), "are not 2 ranks times 1");
        expect_refused(attempt.all_reduce(nullptr, nullptr, 1, DataType::f32, ReduceOp::sum), "is null");
        expect_refused(attempt.broadcast(std::span(two), 2), "root 2 is not a rank");
        expect_refused(attempt.send(std::span(two), comm.rank()), "is this rank itself");
        expect_refused(attempt.submit({Operation::none}), "not an operation");
        expect(attempt.barrier().text() == "ok", "a refused attempt does no harm");
        // Sizes that do not count on this rank are ignored, as in the form that throws.
        const Status reduced = attempt.reduce(two, std::span(three), ReduceOp::sum, 1);
        if (comm.rank() == 1) expect_refused(reduced, "but output of 3");
        if (comm.rank() == 1) expect_ok(attempt.reduce(std::span(two), ReduceOp::sum, 1));
        if (comm.rank() == 0) expect_ok(reduced);
        expect_ok(attempt.barrier());
    });
}

TEST_CASE("a communicator that was moved from refuses attempts", "[attempt]") {
    Communicator first = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
    const Communicator second = std::move(first);
    std::vector<int> data(1);
    expect_refused(first.attempt().all_to_all(data, std::span(data)), "moved from");
    expect_refused(first.status(), "moved from");
    REQUIRE(second.status().ok());
}

TEST_CASE("an attempt and status() say who is to blame", "[attempt]") {
    run_communicators(3, [](Communicator& comm) {
        if (comm.rank() == 1) comm.abort("enough");
        Status ended;
        while (ended.ok()) ended = comm.attempt().barrier();
        for (const Status& status : {ended, comm.status()}) {
            expect(status.code() == Code::aborted, std::string(status.text()));
            expect(status.culprits() == std::vector{1}, "rank 1 is the culprit");
            expect(status.text().find("enough") != std::string_view::npos, std::string(status.text()));
            expect_error(Code::aborted, {1}, [&] { status.throw_if_failed(); });
            expect(status.error()->code() == Code::aborted, "the error is kept");
        }
    });
}

TEST_CASE("status() may be asked from any thread while operations go on", "[attempt]") {
    std::latch through(2);
    run_communicators(2, [&](Communicator& comm) {
        CountDown here(through);
        std::thread asker([&] {
            while (comm.status().ok()) std::this_thread::yield();
        });
        for (int i = 0; i < 200; ++i) comm.barrier();
        here.now();
        through.wait();
        comm.abort("done");
        asker.join();
    });
}

TEST_CASE("what is no CollectiveError becomes a status, too", "[attempt]") {
    const Status odd = Status::of([] { throw std::bad_alloc(); });
    REQUIRE_FALSE(odd.ok());
    REQUIRE(odd.code() == Code::system);
    REQUIRE(odd.culprits().empty());
    REQUIRE_THROWS_AS(odd.throw_if_failed(), CollectiveError);
    const Status strange = Status::of([] { throw 1; });
    REQUIRE(strange.text() == "an unknown error");
    REQUIRE(Status().ok());
    REQUIRE_FALSE(Status().error().has_value());
    REQUIRE_FALSE(Status().code().has_value());
    Status().throw_if_failed();
}
