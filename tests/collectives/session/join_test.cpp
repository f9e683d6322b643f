#include "collectives/session/bootstrap.hpp"
#include "collectives/session/joining.hpp"
#include "collectives/session/place.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>

#include "collectives/session/claim.hpp"
#include "collectives/session/gathering.hpp"
#include "collectives/session/host_identity.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "rendezvous/store/store_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Milliseconds = std::chrono::milliseconds;

Member member(int rank) { return {{"127.0.0.1", static_cast<std::uint16_t>(5000 + rank)}, "host"}; }

Gathering::Clock::time_point in(Milliseconds length) { return Gathering::Clock::now() + length; }

void all_reduce_ones(Communicator& comm) {
    std::vector<int> ones(3, 1);
    comm.all_reduce(std::span(ones), ReduceOp::sum);
    expect(ones == std::vector<int>(3, comm.world_size()), "all ranks took part");
}

// A port that is free now, below the range from which the kernel gives other programs theirs at any moment.
std::uint16_t free_port() {
    std::random_device random;
    while (true) {
        const auto port = static_cast<std::uint16_t>(10'000 + random() % 20'000);
        try {
            return StoreHost(ListenScope::loopback, port).port();
        } catch (const boost::system::system_error&) {
            // Taken: the next one.
        }
    }
}

// A store of the program's own.
class ProgramsStore final : public KeyValueStore {
  public:
    explicit ProgramsStore(std::shared_ptr<MemoryStoreData> data) : data_(std::move(data)), store_(data_) {}

    void set(const std::string& key, std::string_view value) override {
        if (key.find("/member/1") != std::string::npos && fails_)
            throw std::runtime_error("the disk is full");
        store_.set(key, value);
    }
    std::optional<std::string> get(const std::string& key, Milliseconds limit) override {
        try {
            return store_.get(key, limit);
        } catch (const boost::system::system_error&) {
            return std::nullopt;
        }
    }
    std::int64_t add(const std::string& key, std::int64_t amount) override { return store_.add(key, amount); }
    void fail() { fails_ = true; }

  private:
    std::shared_ptr<MemoryStoreData> data_;
    MemoryStore store_;
    std::atomic<bool> fails_{false};
};

CommunicatorOptions short_join() {
    CommunicatorOptions options;
    options.join_timeout = Milliseconds(300);
    return options;
}

}  // namespace

TEST_CASE("the ranks of a communicator get one table", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    std::vector<Membership> memberships(4);
    run_ranks(4, [&](int rank) {
        MemoryStore store(data);
        memberships[static_cast<std::size_t>(rank)] =
            join_through(store, {rank, 4, 2, "this process"}, member(rank), in(Milliseconds(20'000)))
                .membership;
    });
    for (int rank = 0; rank < 4; ++rank) {
        const Membership& mine = memberships[static_cast<std::size_t>(rank)];
        REQUIRE(mine.rank == rank);
        REQUIRE(mine.round == 2);
        REQUIRE(mine.communicator == 1);
        REQUIRE(mine.nonce == memberships[0].nonce);
        for (int other = 0; other < 4; ++other) REQUIRE(mine.member(other) == member(other));
    }
    REQUIRE(memberships[0].nonce != Nonce{});
}

TEST_CASE("ranks that do not come are named by all that did", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(5, [&](int rank) {
        if (rank == 2 || rank == 4) return;
        MemoryStore store(data);
        // Who comes has come before the time of rank 0 begins.
        if (rank == 0)
            store.wait({"ddprun/communicators/0/1/member/1", "ddprun/communicators/0/1/member/3"},
                       kHangGuard);
        const auto error = expect_error(CollectiveErrorCode::timed_out, {2, 4}, [&] {
            join_through(store, {rank, 5, 0, "this process"}, member(rank),
                         rank == 0 ? in(Milliseconds(200)) : in(kHangGuard));
        });
        expect(std::string(error.what()).find(": 2, 4") != std::string::npos, error.what());
        expect(error.operation() == "join", "the operation is named");
    });
}

TEST_CASE("without rank 0 the others give up by themselves", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(3, [&](int rank) {
        if (rank == 0) return;
        MemoryStore store(data);
        const auto error = expect_error([&] {
            join_through(store, {rank, 3, 0, "this process"}, member(rank), in(Milliseconds(300)));
        });
        expect(error.code() == CollectiveErrorCode::timed_out && error.culprits().front() == 0, error.what());
    });
}

TEST_CASE("a second process that claims a rank is refused", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    MemoryStore store(data);
    store.set("ddprun/communicators/0/owner/1", "pid 7 on other/host");
    const auto error = expect_error(CollectiveErrorCode::system, {1}, [&] {
        join_through(store, {1, 2, 0, "pid 8 on this/host"}, member(1), in(Milliseconds(100)));
    });
    REQUIRE(std::string(error.what()).find("pid 7 on other/host") != std::string::npos);
}

TEST_CASE("the place of a process that has ended is free, and no other", "[join]") {
    const std::string own = own_claim("this/host");
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const std::string claim = own_claim("this/host");
        const bool is_told = ::write(ends[1], claim.data(), claim.size()) > 0;
        ::_exit(is_told ? 0 : 1);
    }
    std::array<char, 256> bytes{};
    const std::string dead(bytes.data(),
                           static_cast<std::size_t>(::read(ends[0], bytes.data(), bytes.size())));
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    for (const int end : ends) ::close(end);
    const auto changed = [](std::string claim, const std::string& what, const std::string& to) {
        return claim.replace(claim.find(what), what.size(), to);
    };
    CHECK(is_of_dead(dead, own));
    CHECK(is_of_dead(changed(own, " since ", " since 1"), own));
    CHECK_FALSE(is_of_dead(own, own));
    CHECK_FALSE(is_of_dead(changed(dead, "this/host", "other/host"), own));
    CHECK_FALSE(is_of_dead("pid 7 on this/host", own));
    const auto data = std::make_shared<MemoryStoreData>();
    MemoryStore store(data);
    const auto theirs = store_over(std::make_shared<ProgramsStore>(data));
    constexpr const char* kKey = "ddprun/communicators/0/owner/1";
    for (Store* one : {static_cast<Store*>(&store), theirs.get()}) {
        store.set(kKey, dead);
        claim_rank(*one, kKey, 1, own);
        CHECK(store.get(kKey, Milliseconds(0)) == own);
        // It has it already.
        claim_rank(*one, kKey, 1, own);
        const auto refusal = [&](const std::string& other) {
            return std::string(expect_error(CollectiveErrorCode::system, {1}, [&] {
                                   claim_rank(*one, kKey, 1, other);
                               }).what());
        };
        const std::string pid = "pid " + std::to_string(::getpid());
        CHECK_THAT(refusal(changed(own, "this/host", "other/host")),
                   Catch::Contains("by " + pid + " on this; this is " + pid + " on other. "));
        // Nothing else may differ.
        const std::string twin = changed(own, "this/host", "this/other");
        CHECK_THAT(refusal(twin), Catch::Contains("by " + own + "; this is " + twin + ". "));
        CHECK(store.get(kKey, Milliseconds(0)) == own);
    }
}

TEST_CASE("containers of one machine that cannot share memory are told so, by the first rank in them",
          "[join]") {
    const auto told = [](int rank, const std::vector<std::string>& hosts) {
        Membership membership;
        membership.rank = rank;
        for (const std::string& host : hosts) membership.members.push_back({{"10.0.0.1", 1}, host});
        return notice_of_containers(membership).value_or("");
    };
    const std::string a = "a/boot/pid:[1]";
    const std::string b = "b/boot/pid:[2]";
    const std::string far = "a/other/pid:[3]";
    CHECK(told(1, {far, a, b, a}).find("ranks 1, 3 on a and 2 on b are in containers of one machine") == 8);
    CHECK(told(0, {a, "a/boot/pid:[2]"}).find("ranks 0 on a and 1 on a ") == 8);
    CHECK(told(0, {far, a, b, a}).empty());
    CHECK(told(2, {far, a, b, a}).empty());
    // Two names for one machine, as tests have them; and names that the user has given.
    CHECK(told(0, {a, "b/boot/pid:[1]"}).empty());
    CHECK(told(0, {"one", "two"}).empty());
    CHECK(told(0, {"mine/1", "mine/2"}).empty());
    CHECK(told(0, {a, "one"}).empty());
    const std::string here = host_identity();
    CHECK(std::ranges::count(here, '/') == 2);
    CHECK(told(0, {here, "b" + here.substr(here.find('/'), here.rfind('/') - here.find('/')) + "/pid:[1]"}) !=
          "");
}

TEST_CASE("containers of one machine with the same numbers of memory are one host", "[join]") {
    using Texts = std::vector<std::string>;
    // Members as `host numbers`; where each has its memory.
    const auto joined = [](const Texts& members) {
        Membership membership;
        for (const std::string& text : members) {
            const auto blank = text.find(' ');
            Member member{{"10.0.0.1", 1}, text.substr(0, blank)};
            if (blank != std::string::npos) member.numbers = text.substr(blank + 1);
            member.joined = "of an old one";
            membership.members.push_back(member);
        }
        join_containers(membership);
        Texts result;
        for (const Member& member : membership.members) result.push_back(member.shares());
        CHECK(membership.sees_processes() == (result[0] == membership.members[0].host));
        CHECK(membership.local_rank() == 0);
        if (result[0] == "n") {
            CHECK_FALSE(notice_of_containers(membership));
            CHECK(notice_of_containers(membership, false));
        }
        return result;
    };
    const std::string a = "a/boot/pid:[1]";
    const std::string b = "b/boot/pid:[2]";
    CHECK(joined({a + " n", b + " n"}) == Texts{"n", "n"});
    const std::string far = "far/other/pid:[1]";
    CHECK(joined({a + " n", far + " m", b + " n", far + " m"}) == Texts{"n", far, "n", far});
    // Each has its own, or none, or they see each other's processes, under whatever names.
    CHECK(joined({a + " n", b + " m"}) == Texts{a, b});
    CHECK(joined({a, b}) == Texts{a, b});
    CHECK(joined({a + " n", a + " n"}) == Texts{a, a});
    CHECK(joined({a + " n", a + " m"}) == Texts{a, a});
    CHECK(joined({a + " n", "b/boot/pid:[1] n"}) == Texts{a, "b/boot/pid:[1]"});
    // With 4 and 2 ranks all would talk by TCP; and so would 257.
    const std::string c = "c/other/pid:[3]";
    CHECK(joined({a + " n", b + " n", a + " n", b + " n", c, c}) == Texts{a, b, a, b, c, c});
    Texts many(kShmMaxRanks / 2 + 1, a + " n");
    many.insert(many.end(), many.size(), b + " n");
    CHECK(joined(many).front() == a);
    // What users have given stays.
    CHECK(joined({"one n", "two n"}) == Texts{"one", "two"});
    const std::string numbers = memory_numbers();
    CHECK((numbers.empty() || numbers.find("/ipc:[") != std::string::npos));
    CHECK(numbers.find(' ') == std::string::npos);
}

TEST_CASE("ranks that disagree about their number are told, whoever comes first", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(2, [&](int rank) {
        MemoryStore store(data);
        const int expected = rank == 0 ? 2 : 3;
        const auto error = expect_error([&] {
            join_through(store, {rank, expected, 0, "this process"}, member(rank), in(Milliseconds(20'000)));
        });
        expect(error.code() == CollectiveErrorCode::mismatch && error.culprits().size() == 2, error.what());
        for (const char* part : {"rank 0 expects 2 ranks", "rank 1 expects 3 ranks"})
            expect(std::string(error.what()).find(part) != std::string::npos, error.what());
    });
}

TEST_CASE("a rank beyond the number of the others spoils nothing for them", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(2, [&](int rank) {
        MemoryStore own(data);
        if (rank == 1) own.wait({"ddprun/communicators/0/1/member/0"}, kHangGuard);
        if (rank == 1) {
            expect_error(CollectiveErrorCode::mismatch, {0, 2}, [&] {
                join_through(own, {2, 3, 0, "this process"}, member(2), in(Milliseconds(20'000)));
            });
        }
        join_through(own, {rank, 2, 0, "this process"}, member(rank), in(Milliseconds(20'000)));
    });
}

TEST_CASE("a rank that gives up early decides for those that would wait longer", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(2, [&](int rank) {
        MemoryStore store(data);
        if (rank == 1) store.wait({"ddprun/communicators/0/1/member/0"}, kHangGuard);
        expect_error(CollectiveErrorCode::timed_out, {2}, [&] {
            join_through(store, {rank, 3, 0, "this process"}, member(rank),
                         rank == 0 ? in(kHangGuard) : in(Milliseconds(200)));
        });
    });
}

TEST_CASE("the next communicator and the next generation start afresh in the same store", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    for (const std::uint32_t round : {0U, 0U, 1U}) {
        run_ranks(3, [&](int rank) {
            const Place place{rank, 3, -1, -1, round};
            Communicator comm(open_session(std::make_shared<MemoryStore>(data), "127.0.0.1", place, {}));
            all_reduce_ones(comm);
        });
    }
}

TEST_CASE("two communicators of the same ranks live side by side", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(3, [&](int rank) {
        const Place place{rank, 3, -1, -1, 0};
        const auto open = [&] {
            return Communicator(open_session(std::make_shared<MemoryStore>(data), "127.0.0.1", place, {}));
        };
        Communicator first = open();
        Communicator second = open();
        all_reduce_ones(second);
        all_reduce_ones(first);
        expect(first.local_rank() == rank && first.local_world_size() == 3, "ranks of one host are counted");
    });
}

TEST_CASE("tcp:// meets at a store that rank 0 hosts, time after time", "[bootstrap]") {
    const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
    run_ranks(3, [&](int rank) {
        for (int round = 0; round < 4; ++round) {
            Communicator comm = Communicator::connect(url, rank, 3);
            all_reduce_ones(comm);
        }
    });
}

TEST_CASE("file:// meets in a file", "[bootstrap]") {
    const auto path =
        std::filesystem::temp_directory_path() / ("ddprun_join_test." + std::to_string(::getpid()));
    std::filesystem::remove(path);
    run_ranks(3, [&](int rank) {
        Communicator comm = Communicator::connect("file://" + path.string(), rank, 3);
        all_reduce_ones(comm);
    });
    std::filesystem::remove(path);
}

TEST_CASE("an environment that is incomplete is an invalid_argument that names the variable", "[bootstrap]") {
    const auto error = expect_error(CollectiveErrorCode::invalid_argument, {}, [] {
        open_session_from({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}}, {});
    });
    REQUIRE(std::string(error.what()).find("MASTER_ADDR") != std::string::npos);
}

TEST_CASE("the environment gives the place; local ranks it does not give are counted", "[bootstrap]") {
    const std::string port = std::to_string(free_port());
    run_ranks(2, [&](int rank) {
        Environment environment{{"RANK", std::to_string(rank)},
                                {"WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", port}};
        {
            Communicator comm(open_session_from(environment, {}));
            all_reduce_ones(comm);
            expect(comm.local_rank() == rank && comm.local_world_size() == 2, "counted");
        }
        environment["LOCAL_RANK"] = "0";
        environment["LOCAL_WORLD_SIZE"] = "1";
        Communicator comm(open_session_from(environment, {}));
        expect(comm.local_rank() == 0 && comm.local_world_size() == 1, "as told");
    });
}

TEST_CASE("without any launcher there is one rank, alone", "[bootstrap]") {
    Communicator comm(open_session_from({}, {}));
    REQUIRE(comm.rank() == 0);
    REQUIRE(comm.world_size() == 1);
    all_reduce_ones(comm);
}

TEST_CASE("a store that cannot be reached is an error with its cause", "[bootstrap]") {
    CommunicatorOptions options;
    options.join_timeout = Milliseconds(300);
    const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
    const auto error = expect_error([&] { Communicator::connect(url, 1, 2, options); });
    const bool expected_code =
        error.code() == CollectiveErrorCode::timed_out || error.code() == CollectiveErrorCode::system;
    REQUIRE(expected_code);
    REQUIRE(error.operation() == "join");
}

TEST_CASE("ranks join, split and shrink over a store of the program's, which goes with the last of them",
          "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(3, [&](int rank) {
        auto store = std::make_shared<ProgramsStore>(data);
        const std::weak_ptr<ProgramsStore> kept = store;
        std::optional<Communicator> first = Communicator::join(store, rank, 3);
        Communicator second = Communicator::join(std::move(store), rank, 3);
        all_reduce_ones(second);
        all_reduce_ones(*first);
        std::optional<Communicator> part = first->split(rank == 1 ? 1 : 0);
        all_reduce_ones(*part);
        first->barrier();
        if (rank == 1) return;
        std::optional<Communicator> rest = first->shrink({1});
        first.reset();
        second = std::move(*part);
        all_reduce_ones(*rest);
        expect(rest->world_size() == 2 && !kept.expired(), "what comes from a communicator holds its store");
        rest.reset();
        second.barrier();
    });
    REQUIRE(data.use_count() == 1);
}

TEST_CASE("a rank alone asks nothing of the program's store", "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    Communicator alone = Communicator::join(std::make_shared<ProgramsStore>(data), 0, 1);
    all_reduce_ones(alone);
    REQUIRE(data->values.empty());
    expect_error(CollectiveErrorCode::invalid_argument, {}, [] { Communicator::join(nullptr, 0, 1); });
    expect_error(CollectiveErrorCode::invalid_argument, {},
                 [&] { Communicator::join(std::make_shared<ProgramsStore>(data), 2, 2); });
}

TEST_CASE("who does not come to the program's store is named, and what the store says when it fails",
          "[join]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(2, [&](int rank) {
        // The other one decides for rank 0, which has come before.
        if (rank == 1) MemoryStore(data).wait({"ddprun/communicators/0/1/member/0"}, kHangGuard);
        expect_error(CollectiveErrorCode::timed_out, {2}, [&] {
            Communicator::join(std::make_shared<ProgramsStore>(data), rank, 3,
                               rank == 1 ? short_join() : CommunicatorOptions{});
        });
    });
    const auto other = std::make_shared<ProgramsStore>(std::make_shared<MemoryStoreData>());
    other->fail();
    const auto error =
        expect_error(CollectiveErrorCode::system, {}, [&] { Communicator::join(other, 1, 2); });
    REQUIRE(std::string(error.what()).find("failed at set(") != std::string::npos);
    REQUIRE(std::string(error.what()).find("the disk is full") != std::string::npos);
}
