// Groups of sends and receives that do not end well: the ranks disagree, leave, do not come, abort. Ranks are
// threads; see killed_rank_test for processes that die.
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/collectives/group_fixture.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

}  // namespace

TEST_CASE("two ranks whose groups do not fit are told both calls", "[group]") {
    using Add = std::function<void(Group&, int peer)>;
    std::vector<int> large(kLarge);
    const std::vector<int> ten(10);
    const auto recv = [&](Group& group, int peer, std::size_t count) {
        group.recv(std::span(large).first(count), peer);
    };
    const std::vector<std::tuple<Add, Add, std::string, std::string>> cases{
        {[&](Group& group, int peer) { recv(group, peer, 11); },
         [&](Group& group, int peer) { group.send(std::span(ten), peer); },
         "rank 0 called recv(11 i32 from rank 1)", "rank 1 called send(10 i32)"},
        {[&](Group& group, int peer) { recv(group, peer, 10); },
         [&](Group& group, int peer) { group.send(ten.data(), 10, DataType::f32, peer); },
         "rank 0 called recv(10 i32 from rank 1)", "rank 1 called send(10 f32)"},
        // As many bytes, which are not sent before they are asked for.
        {[&](Group& group, int peer) { recv(group, peer, kLarge); },
         [&](Group& group, int peer) { group.send(large.data(), kLarge, DataType::u32, peer); },
         "rank 0 called recv(", "rank 1 called send("},
        {[&](Group& group, int peer) { recv(group, peer, kLarge); },
         [](Group& group, int peer) { group.send(nullptr, 0, DataType::f64, peer); }, "rank 0 called recv(",
         "rank 1 called send(0 f64)"},
    };
    for (const auto& [receives, sends, own, theirs] : cases) {
        for (const int lanes : {1, kMaxLanes}) {
            run_on_hosts(
                std::vector<std::string>(3),
                [&, &receives = receives, &sends = sends, &own = own, &theirs = theirs](Communicator& comm) {
                    Group group(comm);
                    const auto error = expect_error(Code::mismatch, {0, 1}, [&] {
                        // Of several members the one that is wrong is named.
                        std::vector<int> good(5);
                        if (comm.rank() == 0) {
                            group.recv(std::span(good), 1);
                            receives(group, 1);
                        } else if (comm.rank() == 1) {
                            group.send(std::span(good), 0);
                            sends(group, 0);
                        }
                        group.run();
                        comm.barrier();
                    });
                    const std::string text = error.what();
                    expect(text.find(own) != std::string::npos && text.find(theirs) != std::string::npos,
                           text);
                    expect(comm.rank() != 0 || error.operation() == "group", "the operation is the group");
                },
                {}, lanes);
        }
    }
}

TEST_CASE("a peer that leaves is named by a group that needs it, and by no other", "[group]") {
    for (const std::size_t count : {std::size_t{10}, kLarge}) {
        on_every_layout({4}, [&](Communicator& comm) {
            std::vector<int> mine = values(count, comm.rank());
            std::vector<int> theirs(count);
            std::vector<int> never(count);
            const int peer = 1 - comm.rank();
            int hello = comm.rank();
            Group group(comm);
            if (comm.rank() == 2) {
                // Its connections exist when it leaves.
                for (const int to : {0, 1}) group.send(std::span(&hello, 1), to);
                group.run();
            }
            if (comm.rank() >= 2) return;
            // One that misses rank 2 ends the communicator for the other, which may still be in its first
            // group.
            const auto error = expect_error(Code::peer_left, {2}, [&] {
                group.send(std::span(mine), peer);
                group.recv(std::span(theirs), peer);
                group.recv(std::span(&hello, 1), 2);
                group.run();
                expect(theirs == values(count, peer) && hello == 2, "exchanged with who has left");
                group.send(std::span(mine), peer);
                group.recv(std::span(theirs), peer);
                group.recv(std::span(never), 2);
                group.run();
            });
            expect(error.operation() == "group", error.what());
            expect(group.empty(), "empty, however it ended");
        });
    }
}

TEST_CASE("a group's deadline names the ranks that exchange nothing", "[group]") {
    std::latch given_up(2);
    run_communicators(
        3,
        [&](Communicator& comm) {
            int x = 0;
            int y = 0;
            comm.barrier();
            Group group(comm);
            // Rank 1 waits for rank 2 as well, so it is not to blame.
            if (comm.rank() == 0) {
                const CountDown at_end{given_up};
                group.recv(&x, 1, DataType::i32, 1);
                group.recv(&y, 1, DataType::i32, 2);
                const auto error = expect_error(Code::timed_out, {2}, [&] { group.run(); });
                const std::string text = error.what();
                expect(
                    text.find(
                        "group of 2: Timed out after 3 s (operation_timeout) rank 2 is at barrier() as call 1") ==
                        0,
                    text);
            } else if (comm.rank() == 1) {
                const CountDown at_end{given_up};
                expect_error(Code::timed_out, {2}, [&] { comm.recv(std::span(&x, 1), 2); });
            }
            given_up.wait();  // who leaves would be blamed in place of rank 2
            expect(comm.status().ok(), "what has not begun ends nothing");
        },
        short_operations());
}

TEST_CASE("abort from another thread ends groups, also those that only send", "[group]") {
    on_every_layout({4}, [](Communicator& comm) {
        std::thread aborter;
        if (comm.rank() == 1) aborter = std::thread([&] { comm.abort("enough"); });
        std::vector<int> data(kLarge);
        const auto error = expect_error([&] {
            // Nobody receives. How many groups the buffers of all lanes hold the system decides.
            while (true) {
                Group group(comm);
                for (int peer = 0; peer < comm.world_size(); ++peer) {
                    if (peer == comm.rank()) continue;
                    group.send(std::span(data), peer);
                    group.send(std::span(data), peer);
                }
                group.start().wait();
            }
        });
        if (aborter.joinable()) aborter.join();
        expect(error.code() == Code::aborted && error.culprits() == std::vector<int>{1}, error.what());
    });
}

TEST_CASE("a send whose receive does not come in time has not taken place", "[group]") {
    for (const std::vector<std::string>& hosts : {Hosts{"a", "a"}, Hosts{"a", "b"}}) {
        std::latch given_up(1);
        run_on_hosts(hosts, [&](Communicator& comm) {
            const int peer = 1 - comm.rank();
            const std::vector<int> wrong = values(kLarge, 100);
            const std::vector<int> right = values(kLarge, 200);
            std::vector<int> in(kLarge);
            if (comm.rank() == 1) {
                given_up.wait();
                comm.recv(std::span(in), peer);
                expect(in == right, "what was sent in the end");
                return comm.barrier();
            }
            CountDown down(given_up);
            const auto times_out = [&](const std::function<void()>& body) {
                const auto error = expect_error(Code::timed_out, {1}, body);
                expect(std::string(error.what()).find("Timed out after 0.050 s") != std::string::npos,
                       error.what());
                expect(comm.status().ok(), "what has not begun ends nothing");
            };
            comm.set_timeout(std::chrono::milliseconds(50));
            times_out([&] { comm.send(std::span(wrong), peer); });
            Group group(comm);
            group.send(std::span(wrong), peer);
            group.recv(std::span(in), peer);
            times_out([&] { group.run(); });
            comm.set_timeout(std::chrono::minutes(5));
            const Work work = comm.async().send(std::span(right), peer);
            down.now();
            work.wait();
            comm.barrier();
        });
    }
}

TEST_CASE("a group that has moved and runs out of time ends its communicator", "[group]") {
    for (const std::vector<std::string>& hosts : {Hosts{"a", "a", "a"}, Hosts{"a", "b", "b"}}) {
        std::latch over(1);
        run_on_hosts(
            hosts,
            [&](Communicator& comm) {
                int in = 0;
                int out = comm.rank();
                if (comm.rank() == 1) comm.send(std::span(&out, 1), 0);
                if (comm.rank() > 0) {
                    over.wait();
                    expect_error(Code::timed_out, {2}, [&] { comm.barrier(); });
                    return;
                }
                const CountDown down(over);
                int never = 0;
                Group group(comm);
                group.recv(std::span(&in, 1), 1);
                group.recv(std::span(&never, 1), 2);
                expect_error(Code::timed_out, {2}, [&] { group.run(); });
                expect(!comm.status().ok() && in == 1, "ended");
            },
            short_operations());
    }
}
