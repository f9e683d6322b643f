// Deadlines of single operations, and the word that a communicator has ended. Ranks are threads here.
#include <atomic>
#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/group.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using std::chrono::milliseconds;

OperationRequest request(Operation operation, std::vector<int>& data, int peer, milliseconds timeout) {
    OperationRequest made;
    made.operation = operation;
    made.in = made.out = data.data();
    made.count = data.size();
    made.type = DataType::i32;
    made.peer = peer;
    made.timeout = timeout;
    return made;
}

void expect_timed_out(Communicator& comm, int culprit, const std::function<void()>& body) {
    const auto error = expect_error(Code::timed_out, {culprit}, body);
    expect(std::string(error.what()).find(" Timed out after ") != std::string::npos, error.what());
    expect(comm.status().ok(), "the communicator is well");
}

}  // namespace

TEST_CASE("a receive that runs out before a byte has come leaves the communicator as it was", "[deadline]") {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1'000'000}}) {
        std::latch given_up(1);
        run_communicators(3, [&](Communicator& comm) {
            std::vector<int> data(count, comm.rank());
            if (comm.rank() == 0) {
                const CountDown down(given_up);
                expect_timed_out(comm, 1,
                                 [&] { comm.submit(request(Operation::recv, data, 1, milliseconds(50))); });
                comm.set_timeout(milliseconds(50));
                expect_timed_out(comm, 1, [&] { comm.recv(std::span(data), 1); });
                const Work late = comm.async().submit(request(Operation::recv, data, 2, milliseconds(20)));
                expect_timed_out(comm, 2, [&] { late.wait(); });
                Group group(comm);
                group.recv(std::span(data), 1);
                expect_timed_out(comm, 1, [&] { group.run(); });
                comm.set_timeout(std::chrono::minutes(1));
            } else {
                given_up.wait();
            }
            if (comm.rank() == 0) comm.recv(std::span(data), 1);
            if (comm.rank() == 1) comm.send(std::span(data), 0);
            expect(data.back() == comm.rank() || comm.rank() == 0, "what is sent stays");
            expect(comm.rank() != 0 || data.back() == 1, "the next one comes whole");
            comm.all_reduce(std::span(data), ReduceOp::sum);
            expect(data.front() == 4, "all go on");
        });
    }
}

TEST_CASE("a collective's own deadline ends the communicator and says so", "[deadline]") {
    std::latch ended(2);
    run_communicators(3, [&](Communicator& comm) {
        std::vector<int> data(10);
        comm.barrier();
        if (comm.rank() == 2) return ended.wait();
        const CountDown down(ended);
        const auto error = expect_error(Code::timed_out, {2}, [&] {
            comm.submit(
                request(Operation::all_reduce, data, -1, milliseconds(comm.rank() == 0 ? 3000 : 60'000)));
        });
        const std::string text = error.what();
        expect(
            text.find(": Timed out after 3 s (its own timeout) rank 2 is at barrier()") != std::string::npos,
            text);
        expect_error(Code::timed_out, {2}, [&] { comm.barrier(); });
    });
}

TEST_CASE("timeouts out of range are refused", "[deadline]") {
    run_communicators(1, [](Communicator& comm) {
        std::vector<int> data(1);
        for (const auto timeout : {milliseconds(-1), milliseconds(std::chrono::hours(24 * 4000))}) {
            expect_error(Code::invalid_argument, {},
                         [&] { comm.submit(request(Operation::all_reduce, data, -1, timeout)); });
            expect_error(Code::invalid_argument, {}, [&] { comm.set_timeout(timeout); });
        }
        expect_error(Code::invalid_argument, {}, [&] { comm.set_timeout(milliseconds(0)); });
    });
}

TEST_CASE("whoever asked is told once how a communicator has ended", "[deadline]") {
    enum class End { destroyed, finalized, aborted };
    for (const int n : {1, 3}) {
        for (const End end : {End::destroyed, End::finalized, End::aborted}) {
            std::atomic<int> well{0};
            std::atomic<int> badly{0};
            std::latch told(2 * n);
            run_communicators(n, [&](Communicator& given) {
                std::optional<Communicator> comm(std::move(given));
                const auto count = [&](const Status& status) {
                    ++(status.ok() ? well : badly);
                    told.count_down();
                };
                comm->on_end(count);
                // Over TCP the abort of a rank that is through may overtake the barrier of another.
                expect(comm->attempt().barrier().ok() || end == End::aborted, "the barrier");
                if (end == End::finalized) comm->finalize();
                if (end == End::aborted && comm->rank() == 0) comm->abort("enough");
                while (end == End::aborted && comm->attempt().barrier().ok()) {
                }
                comm->on_end(count);
                comm.reset();
            });
            told.wait();
            REQUIRE((end == End::aborted ? badly : well) == 2 * n);
        }
    }
}
