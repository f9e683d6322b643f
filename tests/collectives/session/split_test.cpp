#include "collectives/session/split.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/liveness/lifeline.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/session.hpp"
#include "rendezvous/worker/accusation.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

// The ranks of `whole` that are in `part`, in its order.
std::vector<int> members_of(Communicator& part, int rank_in_whole) {
    std::vector<int> members(static_cast<std::size_t>(part.world_size()));
    part.all_gather(std::vector<int>{rank_in_whole}, std::span(members));
    return members;
}

std::string text_of(const std::vector<int>& ranks) {
    std::string text;
    for (const int rank : ranks) text += std::to_string(rank) + ' ';
    return text;
}

}  // namespace

TEST_CASE("groups are those of one colour, by key, then by rank", "[split]") {
    const std::vector<SplitEntry> entries{{0, 5}, {1, 0}, {0, -1}, {0, 5}, {1, 0}, {-1, 0}};
    REQUIRE(split_group(entries, 0) == std::vector<int>{2, 0, 3});
    REQUIRE(split_group(entries, 3) == std::vector<int>{2, 0, 3});
    REQUIRE(split_group(entries, 4) == std::vector<int>{1, 4});
}

TEST_CASE("split makes the groups that colours and keys say, for any of them", "[split]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {1, 2, 3, 4, 7}) {
        run_communicators(n, [&](Communicator& comm) {
            std::mt19937 random(seed);  // the same on all ranks
            for (int round = 0; round < 6; ++round) {
                std::vector<SplitEntry> entries;
                for (int rank = 0; rank < n; ++rank) {
                    entries.push_back({static_cast<int>(random() % 4) - 1, static_cast<int>(random() % 3)});
                }
                const SplitEntry& mine = entries[static_cast<std::size_t>(comm.rank())];
                std::optional<Communicator> part = comm.split(mine.color, mine.key);
                expect(part.has_value() == (mine.color >= 0), "a communicator for colours from 0");
                if (!part) continue;
                const auto group = split_group(entries, comm.rank());
                expect(part->world_size() == static_cast<int>(group.size()),
                       "as many ranks as gave the colour");
                const auto members = members_of(*part, comm.rank());
                expect(members == group, "members " + text_of(members) + "instead of " + text_of(group));
                expect(part->local_world_size() == part->world_size(), "all on one host");
                expect(part->local_rank() == part->rank(), "numbered on the host as in the communicator");
            }
            comm.barrier();
        });
    }
}

TEST_CASE("a part can be split again, used beside the whole, and outlive it", "[split]") {
    run_communicators(4, [](Communicator& whole) {
        auto left = std::make_unique<Communicator>(*whole.split(0, -whole.rank()));
        expect(left->rank() == 3 - whole.rank(), "all, in the other order");
        Communicator half = *left->split(left->rank() / 2);
        std::vector<int> ones(100'000, 1);
        half.all_reduce(std::span(ones), ReduceOp::sum);
        left->all_reduce(std::span(ones), ReduceOp::sum);
        whole.all_reduce(std::span(ones), ReduceOp::sum);
        left.reset();
        half.all_reduce(std::span(ones), ReduceOp::sum);
        expect(ones[7] == 2 * 4 * 4 * 2, "each sum over its own ranks");
        whole.barrier();
    });
}

TEST_CASE("the failure of a part leaves the whole and the other parts alone, and the reverse", "[split]") {
    std::latch through(4);
    run_communicators(4, [&](Communicator& whole) {
        CountDown at_end(through);
        const int color = whole.rank() / 2;
        Communicator first = *whole.split(color);
        Communicator second = *whole.split(color);
        // Colour 0 disagrees within its first communicator, colour 1 aborts it.
        if (color == 0) {
            std::vector<int> data(10 + static_cast<std::size_t>(first.rank()));
            expect_error(Code::mismatch, {0, 1}, [&] { first.all_reduce(std::span(data), ReduceOp::sum); });
        } else {
            if (first.rank() == 1) first.abort("enough");
            expect_error(Code::aborted, {1}, [&] { first.recv(std::span<int>(), 1 - first.rank()); });
        }
        second.barrier();
        whole.barrier();
        at_end.now();
        through.wait();
        if (whole.rank() == 2) whole.abort("enough");
        expect_error(Code::aborted, {2}, [&] {
            while (true) whole.barrier();
        });
        expect_error(Code::aborted, {2}, [&] { static_cast<void>(whole.split(0)); });
        second.barrier();
    });
}

TEST_CASE("the errors of a part say if its ranks have other numbers than in the whole", "[split]") {
    for (const bool reversed : {false, true}) {
        run_communicators(3, [&](Communicator& whole) {
            Communicator part = *whole.split(0, reversed ? -whole.rank() : whole.rank());
            whole.barrier();  // of the whole, since the abort may overtake one of the part
            if (part.rank() == 0) part.abort("enough");
            const auto error = expect_error(Code::aborted, {0}, [&] {
                while (true) part.barrier();
            });
            const std::string text = error.what();
            expect(text.find("rank 0 aborted: enough") != std::string::npos, text);
            expect(find_accusation(text).has_value() != reversed, text);
        });
    }
}

TEST_CASE("a rank that calls something else than split is told who called what", "[split]") {
    run_communicators(2, [](Communicator& comm) {
        const auto error = expect_error(Code::mismatch, {0, 1}, [&] {
            if (comm.rank() == 0) static_cast<void>(comm.split(0));
            if (comm.rank() == 1) comm.barrier();
        });
        expect(std::string(error.what()).find("split() as call 1") != std::string::npos, error.what());
        expect(std::string(error.what()).find("barrier() as call 1") != std::string::npos, error.what());
    });
}

TEST_CASE("a rank alone splits alone", "[split]") {
    run_communicators(1, [](Communicator& comm) {
        expect(!comm.split(-3).has_value(), "no colour, no communicator");
        auto part = comm.split(5, 9);
        expect(part && part->world_size() == 1 && part->rank() == 0, "one rank");
        comm.abort("enough");
        part->barrier();
        expect_error(Code::aborted, {0}, [&] { static_cast<void>(comm.split(0)); });
    });
}

TEST_CASE("a subgroup is made by its members only, in their order", "[subgroup]") {
    run_communicators(4, [](Communicator& comm) {
        const std::vector<int> ranks{3, 0, 2};
        if (comm.rank() != 1) {
            Communicator part = comm.subgroup(ranks, "three");
            expect(ranks[static_cast<std::size_t>(part.rank())] == comm.rank(), "the order is the list's");
            std::vector<int> sum{comm.rank()};
            part.all_reduce(std::span(sum), ReduceOp::sum);
            expect(sum[0] == 5, "the members' sum");
            if (comm.rank() != 2) {
                CommunicatorOptions options;
                options.operation_timeout = std::chrono::milliseconds(12'345);
                Communicator pair = part.subgroup({0, 1}, "two", options);
                pair.barrier();
                expect(pair.options().operation_timeout == options.operation_timeout, "its own options");
            }
            part.barrier();
        }
        Communicator alone = comm.subgroup({comm.rank()}, "alone");
        alone.barrier();
        comm.barrier();
    });
}

TEST_CASE("a subgroup names who does not come, and lists that differ", "[subgroup]") {
    CommunicatorOptions options;
    options.join_timeout = std::chrono::seconds(6);  // in which those come that come
    run_communicators(
        3,
        [&](Communicator& comm) {
            if (comm.rank() != 2) {
                expect_error(CollectiveErrorCode::timed_out, {2}, [&] { comm.subgroup({0, 1, 2}, "all"); });
                const std::vector<int> mine = comm.rank() == 0 ? std::vector{0, 1} : std::vector{0, 1, 2};
                expect_error(CollectiveErrorCode::mismatch, {0, 1}, [&] { comm.subgroup(mine, "other"); });
            }
            for (const auto& wrong : std::vector<std::vector<int>>{{},
                                                                   {comm.rank(), 3},
                                                                   {comm.rank(), -1},
                                                                   {comm.rank(), comm.rank()},
                                                                   {(comm.rank() + 1) % 3}}) {
                expect_error(CollectiveErrorCode::invalid_argument, {},
                             [&] { comm.subgroup(wrong, "wrong"); });
            }
            expect_error(CollectiveErrorCode::invalid_argument, {},
                         [&] { comm.subgroup({comm.rank()}, std::string(300, 'x')); });
            comm.barrier();
        },
        options);
}

namespace {

std::ptrdiff_t entries_of(const char* folder) {
    const std::filesystem::directory_iterator listing(folder);
    return std::distance(begin(listing), end(listing));
}

}  // namespace

TEST_CASE("a subgroup costs three descriptors a rank and no thread, and leaves nothing", "[subgroup]") {
    constexpr int kRanks = 2;
    constexpr int kGroups = 20;
    run_communicators(kRanks, [](Communicator& comm) {
        const auto make = [&](int number) {
            Communicator part = comm.subgroup({1, 0}, "group " + std::to_string(number));
            part.barrier();
            return part;
        };
        // One rank counts while the others stand still; they share the process.
        const auto counted = [&](const char* folder) {
            comm.barrier();
            const auto entries = comm.rank() == 0 ? entries_of(folder) : 0;
            comm.barrier();
            return entries;
        };
        make(-1);
        const auto descriptors = counted("/proc/self/fd");
        const auto threads = counted("/proc/self/task");
        std::vector<Communicator> parts;
        for (int i = 0; i < kGroups; ++i) parts.push_back(make(i));
        const auto more = counted("/proc/self/fd") - descriptors;
        // Over TCP the data goes by two connections.
        const int each = std::getenv("DDPRUN_TRANSPORT") == nullptr ? 3 : 5;
        expect(more <= each * kRanks * kGroups, std::to_string(more) + " more descriptors");
        expect(counted("/proc/self/task") <= threads, "no thread of their own");
        parts.clear();
        for (int i = kGroups; i < 10 * kGroups; ++i) make(i);
        expect(counted("/proc/self/fd") <= descriptors, "no descriptor is left");
    });
}

TEST_CASE("a subgroup says at once who has left the old one", "[subgroup]") {
    run_communicators(3, [](Communicator& comm) {
        if (comm.rank() == 2) {
            expect_error(Code::timed_out, {0, 1}, [&] { comm.finalize(std::chrono::milliseconds(0)); });
            return;
        }
        expect_error(Code::peer_left, {2}, [&] { comm.subgroup({0, 1, 2}, "all"); });
        comm.subgroup({0, 1}, "rest").barrier();
    });
}

TEST_CASE("who gives up a subgroup tells those that wait longer", "[subgroup]") {
    std::latch given_up(1);
    run_communicators(3, [&](Communicator& comm) {
        CommunicatorOptions options;
        if (comm.rank() == 0) options.join_timeout = std::chrono::seconds(6);  // in which rank 1 comes
        if (comm.rank() == 2) given_up.wait();
        const int missing = comm.rank() == 0 ? 2 : 0;
        expect_error(Code::timed_out, {missing}, [&] { comm.subgroup({0, 1, 2}, "all", options); });
        if (comm.rank() == 0) given_up.count_down();
        comm.barrier();
    });
}

TEST_CASE("a rank that gives up for a reason that is none is named", "[subgroup]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(2, [&](int rank) {
        auto session = open_session(std::make_shared<MemoryStore>(data), "127.0.0.1",
                                    {rank, 2, -1, -1, 0, Transport::automatic}, CommunicatorOptions{});
        const Nonce nonce = session->lifeline->membership().nonce;
        Communicator comm(std::move(session));
        for (const std::int32_t reason : {-5, 8, 1000, INT32_MIN}) {
            const std::string name = std::to_string(reason);
            if (rank == 0) {
                const CollectiveError error = expect_error(Code::mismatch, {1}, [&] {
                    comm.subgroup({0, 1}, name);
                });
                expect(
                    std::string(error.what()).find("rank 1 wrote a reason that is none") != std::string::npos,
                    error.what());
                continue;
            }
            // What the members tell each other, see Circle.
            const Nonce tag = derived_nonce(nonce, "subgroup/" + name);
            std::uint64_t number = 0;
            std::memcpy(&number, tag.data(), sizeof(number));
            std::array<std::int32_t, 5> frame{reason};
            comm.send_tagged(frame.data(), sizeof(frame), 0, number);
        }
        comm.barrier();
    });
}
