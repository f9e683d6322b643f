// shrink(): going on without some ranks. Ranks are threads here; see shrink_killed_test for processes that
// die.
#include <unistd.h>

#include <filesystem>
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/session/gathering.hpp"
#include "collectives/session/split.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/store/store_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using std::chrono::milliseconds;

// Long enough for busy cores, and for nobody to wait for without need.
CommunicatorOptions short_joins(milliseconds limit) {
    CommunicatorOptions options;
    options.join_timeout = limit;
    return options;
}

// The old ranks of `comm`, in the order of its ranks.
std::vector<int> old_ranks(Communicator& comm, int old_rank) {
    std::vector<int> ranks(static_cast<std::size_t>(comm.world_size()));
    comm.all_gather(std::vector<int>{old_rank}, std::span(ranks));
    return ranks;
}

void expect_refused(const std::string& text, const std::function<void()>& body) {
    const auto error = expect_error(Code::invalid_argument, {}, body);
    expect(std::string(error.what()).find(text) != std::string::npos, error.what());
}

Member some_member() {
    Member member;
    member.endpoint.host = "127.0.0.1";
    member.endpoint.port = 7;
    member.host = "host";
    return member;
}

}  // namespace

TEST_CASE("a healthy communicator is shrunk, and stays usable", "[shrink]") {
    run_communicators(4, [](Communicator& comm) {
        const int rank = comm.rank();
        if (rank != 1) {
            Communicator part = comm.shrink({1, 1});
            expect(old_ranks(part, rank) == std::vector{0, 2, 3}, "the others, in the old order");
            expect(part.local_world_size() == 3 && part.local_rank() == part.rank(), "of one host");
            expect(part.options().join_timeout == comm.options().join_timeout, "the options are taken over");
            part.finalize(kHangGuard);
        }
        comm.barrier();
    });
}

TEST_CASE("an ended communicator is shrunk, again and again", "[shrink]") {
    run_communicators(4, [](Communicator& comm) {
        const int rank = comm.rank();
        for (int last = 3; last > 0; --last) {
            if (comm.rank() == last) {
                // Leaves while the others need it, but not while they join.
                comm.barrier();
                const Communicator ending = std::move(comm);
                return;
            }
            const auto error = expect_error(Code::peer_left, {last}, [&] {
                while (true) comm.barrier();
            });
            comm = comm.shrink(error.culprits());
            expect(comm.world_size() == last && comm.rank() == rank, "one less");
            expect(comm.status().ok(), "a new life");
        }
        comm.barrier();
        expect(comm.shrink({}).world_size() == 1, "alone");
    });
}

TEST_CASE("nobody need be excluded, and part of a communicator can be shrunk", "[shrink]") {
    run_communicators(4, [](Communicator& comm) {
        if (comm.rank() == 2) comm.abort("again");
        expect_error(Code::aborted, {2}, [&] {
            while (true) comm.barrier();
        });
        Communicator again = comm.shrink({});
        expect(again.world_size() == 4 && again.rank() == comm.rank(), "all of them");
        auto half = again.split(comm.rank() % 2);
        if (half->rank() == 0) {
            half->barrier();
            half->abort("a half ends");
            expect(half->shrink({1}).world_size() == 1, "alone");
        } else {
            expect_error(Code::aborted, {0}, [&] {
                while (true) half->barrier();
            });
        }
        expect(again.shrink({}).world_size() == 4, "the whole lives");
        again.finalize(kHangGuard);
    });
}

TEST_CASE("who excludes itself or no rank is refused", "[shrink]") {
    run_communicators(2, [](Communicator& comm) {
        const int rank = comm.rank();
        expect_refused("cannot exclude itself", [&] { comm.shrink({rank}); });
        expect_refused("cannot exclude itself", [&] { comm.shrink({0, 1}); });
        expect_refused("rank 2 is not a rank", [&] { comm.shrink({2}); });
        expect_refused("rank -1 is not a rank", [&] { comm.shrink({-1}); });
        Communicator moved = comm.shrink({});
        const Communicator elsewhere = std::move(moved);
        expect_refused("moved from", [&] { moved.shrink({}); });
        comm.finalize(kHangGuard);
        expect_refused("has been finalized", [&] { comm.shrink({}); });
    });
}

TEST_CASE("ranks that exclude different ranks are told, not left waiting", "[shrink]") {
    run_communicators(
        4,
        [](Communicator& comm) {
            const int rank = comm.rank();
            if (rank == 3) return;
            const auto error = expect_error([&] {
                comm.shrink(rank == 1 ? std::vector{2, 3} : std::vector{3});
            });
            const std::string text = error.what();
            if (rank == 2) {
                // Excluded by rank 1, which spoils nothing for it if that came later.
                expect(error.code() == Code::mismatch, text);
            } else {
                expect(error.code() == Code::mismatch && error.operation() == "shrink", text);
                expect(text.find("rank 1 excludes 2, 3") != std::string::npos, text);
                expect(text.find("excludes 3") != std::string::npos, text);
            }
        },
        short_joins(kHangGuard));
}

TEST_CASE("two ranks that exclude each other do not both go on", "[shrink]") {
    std::mutex mutex;
    std::map<int, std::string> ends;
    run_communicators(2, [&](Communicator& comm) {
        std::string end = "went on";
        try {
            comm.shrink({1 - comm.rank()});
        } catch (const CollectiveError& error) {
            end = name_of(error.code());
        }
        const std::lock_guard lock(mutex);
        ends[comm.rank()] = end;
    });
    INFO(ends[0] << ", " << ends[1]);
    REQUIRE(
        ((ends[0] == "went on" && ends[1] == "mismatch") || (ends[0] == "mismatch" && ends[1] == "went on")));
}

TEST_CASE("an excluded rank cannot join, nor spoil it for the others", "[shrink]") {
    std::latch made(2);
    run_communicators(3, [&](Communicator& comm) {
        if (comm.rank() == 2) {
            made.wait();
            expect_error(Code::mismatch, {0, 2}, [&] {
                try {
                    comm.shrink({0});
                } catch (const CollectiveError& error) {
                    // Either of the others may have come first.
                    throw CollectiveError(error.code(), error.what(), {0, error.culprits().back()});
                }
            });
            return;
        }
        const CountDown down{made};
        Communicator part = comm.shrink({2});
        part.barrier();
    });
}

TEST_CASE("survivors that do not come are named within join_timeout", "[shrink]") {
    std::latch over(3);
    run_communicators(
        4,
        [&](Communicator& comm) {
            if (comm.rank() == 1) {
                over.wait();
                // What was decided stays decided.
                expect_error(Code::timed_out, {1}, [&] { comm.shrink({}); });
            } else {
                const CountDown down{over};
                const auto error = expect_error(Code::timed_out, {1}, [&] { comm.shrink({}); });
                expect(std::string(error.what()).find("of 4 survivors") != std::string::npos, error.what());
            }
            expect(comm.shrink({}).world_size() == 4, "the next attempt is another");
        },
        short_joins(milliseconds(4000)));
}

TEST_CASE("rank 0's store lives as long as a communicator that comes from it", "[shrink]") {
    std::uint16_t port = 0;
    {
        const StoreHost probe(ListenScope::loopback, 0);
        port = probe.port();
    }
    run_ranks(3, [&](int rank) {
        auto comm = Communicator::connect("tcp://127.0.0.1:" + std::to_string(port), rank, 3);
        if (rank == 2) {
            comm.barrier();
            const Communicator ending = std::move(comm);
            return;
        }
        const auto error = expect_error(Code::peer_left, {2}, [&] {
            while (true) comm.barrier();
        });
        comm = comm.shrink(error.culprits());
        comm.barrier();
        Communicator again = comm.shrink({});
        comm = std::move(again);
        comm.finalize(kHangGuard);
    });
}

TEST_CASE("where the store is gone, shrink says so", "[shrink]") {
    std::uint16_t port = 0;
    {
        const StoreHost probe(ListenScope::loopback, 0);
        port = probe.port();
    }
    std::latch gone(1);
    run_ranks(3, [&](int rank) {
        auto comm = std::make_optional(Communicator::connect("tcp://127.0.0.1:" + std::to_string(port), rank,
                                                             3, short_joins(kHangGuard)));
        if (rank == 0) {
            comm->barrier();
            const CountDown down{gone};
            comm->abort("the host of the store goes");
            comm.reset();
            return;
        }
        expect_error(Code::aborted, {0}, [&] {
            while (true) comm->barrier();
        });
        gone.wait();
        const auto error = expect_error(Code::system, {}, [&] { comm->shrink({0}); });
        expect(std::string(error.what()).find("store in which the ranks met") != std::string::npos,
               error.what());
    });
}

TEST_CASE("shrink works over a file", "[shrink]") {
    const auto path = std::filesystem::temp_directory_path() / ("shrink_test." + std::to_string(::getpid()));
    run_ranks(3, [&](int rank) {
        auto comm = Communicator::connect("file://" + path.string(), rank, 3);
        if (rank == 0) {
            comm.barrier();
            const Communicator ending = std::move(comm);
            return;
        }
        const auto error = expect_error(Code::peer_left, {0}, [&] {
            while (true) comm.barrier();
        });
        comm = comm.shrink(error.culprits());
        expect(old_ranks(comm, rank) == std::vector{1, 2}, "without rank 0");
    });
    std::filesystem::remove(path);
}

TEST_CASE("several hosts go on with what is left of them", "[shrink]") {
    run_on_hosts(host_names(2, 2), [](Communicator& comm) {
        const int rank = comm.rank();
        if (rank == 1) return;
        Communicator part = comm.shrink({1});
        expect(old_ranks(part, rank) == std::vector{0, 2, 3}, "of two hosts");
        expect(part.local_world_size() == (rank == 0 ? 1 : 2), "one on the first");
    });
}

TEST_CASE("who dies while the table is due does not keep the others from it", "[shrink]") {
    // Rank 1 has published itself, and dies before it can look whether all are there.
    const auto data = std::make_shared<MemoryStoreData>();
    MemoryStore store(data);
    const Member member = some_member();
    const std::string prefix = shrunk_prefix(0, Nonce{}, 1);
    Gathering gathering(store, {"shrink", "survivors"}, prefix, 0, {3, {2}});
    SECTION("before this rank comes") {
        store.set(prefix + "member/1", to_string(member));
        store.add(prefix + "arrived", 1);
        const Membership made = gathering.run(member, Gathering::Clock::now() + milliseconds(60'000));
        REQUIRE(made.world_size() == 2);
        REQUIRE(made.rank == 0);
    }
    SECTION("while this rank waits") {
        run_ranks(2, [&](int who) {
            if (who == 0) {
                const Membership made = gathering.run(member, Gathering::Clock::now() + milliseconds(6000));
                expect(made.world_size() == 2, "at the deadline it looks again");
            } else {
                MemoryStore other(data);
                other.wait({prefix + "member/0"}, kHangGuard);
                other.set(prefix + "member/1", to_string(member));
            }
        });
    }
    SECTION("nonsense in the store is an error") {
        store.set(prefix + "terms", "what");
        REQUIRE_THROWS(gathering.run(member, Gathering::Clock::now() + milliseconds(100)));
        store.set(prefix + "terms", "0 3 2");
        store.set(prefix + "table", "what");
        REQUIRE_THROWS(gathering.run(member, Gathering::Clock::now() + milliseconds(100)));
        store.set(prefix + "table", "!tx\n");
        REQUIRE_THROWS(gathering.run(member, Gathering::Clock::now() + milliseconds(100)));
    }
}
