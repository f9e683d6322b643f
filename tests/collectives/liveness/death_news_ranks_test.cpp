// Ranks as threads, each with a slot of the table of the agent that this test plays: communicators fail by
// the word alone, since nobody dies and no connection closes.
#include <latch>
#include <memory>
#include <optional>

#include "collectives/session/bootstrap.hpp"
#include "collectives/session/gathering.hpp"
#include "collectives/session/joining.hpp"
#include "collectives/session/place.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

std::string host_of(int rank) { return std::string(1, static_cast<char>('a' + rank)); }

// The ranks' lives, as they told each other.
std::vector<std::uint64_t> lives_in(MemoryStoreData& data, int world_size) {
    const std::lock_guard lock(data.mutex);
    std::vector<std::uint64_t> lives;
    for (const auto& [key, value] : data.values) {
        if (!key.ends_with("/table")) continue;
        const auto membership = parse_table(value, world_size);
        for (const Member& member : membership.value().members) lives.push_back(member.life);
    }
    return lives;
}

// Each rank on a host of its own.
struct Job {
    explicit Job(int ranks) : world_size(ranks) {}

    Communicator join(int rank) {
        Place place{rank, world_size, -1, -1, 0, Transport::tcp};
        place.host.host_id = host_of(rank);
        place.life = table.slot(rank);
        return Communicator(open_session(std::make_shared<MemoryStore>(data), "127.0.0.1", place, {}));
    }

    // body(communicator, meet): meet() returns when all ranks have called it, and gives their lives.
    template <class Body>
    void run(Body body) {
        std::latch joined(world_size);
        run_ranks(world_size, [&](int rank) {
            Communicator comm = join(rank);
            body(comm, [&] {
                joined.arrive_and_wait();
                return lives_in(*data, world_size);
            });
        });
    }

    int world_size;
    LifeTable table = *LifeTable::create();
    std::shared_ptr<MemoryStoreData> data = std::make_shared<MemoryStoreData>();
};

void reduce_for_ever(Communicator& comm) {
    std::vector<float> values(1000);
    while (true) comm.all_reduce(std::span(values), ReduceOp::max);
}

}  // namespace

TEST_CASE("ranks tell each other lives of their own", "[word]") {
    Job job(3);
    job.run([](Communicator& comm, auto meet) {
        const auto lives = meet();
        expect(lives.size() == 3, "one life a rank");
        for (std::size_t i = 0; i < lives.size(); ++i)
            expect(lives[i] != 0 && lives[i] != lives[(i + 1) % 3], "lives differ");
        comm.barrier();
    });
}

TEST_CASE("a rank whose life is lost is named by all, though it lives", "[word]") {
    for (const int world_size : {2, 4}) {
        for (int victim = 0; victim < world_size; ++victim) {
            Job job(world_size);
            job.run([&](Communicator& comm, auto meet) {
                const auto lives = meet();
                if (comm.rank() == victim) job.table.announce(lives[static_cast<std::size_t>(victim)]);
                expect_error(Code::peer_died, {victim}, [&] { reduce_for_ever(comm); });
            });
        }
    }
}

TEST_CASE("communicators that are split off know the lives, too, and outlive the first", "[word]") {
    Job job(4);
    std::latch alone(4);
    job.run([&](Communicator& comm, auto meet) {
        const auto lives = meet();
        const int rank = comm.rank();
        // Ranks 3, 2 and 1, 0.
        auto half = comm.split(rank / 2, -rank);
        { const Communicator ended = std::move(comm); }
        alone.arrive_and_wait();
        if (rank == 3) job.table.announce(lives[3]);
        if (rank / 2 == 1) {
            expect_error(Code::peer_died, {0}, [&] { reduce_for_ever(*half); });
        } else {
            half->barrier();
        }
    });
}

TEST_CASE("lives of others, and of those that have left, end nothing", "[word]") {
    Job job(3);
    std::latch left(1);
    job.run([&](Communicator& comm, auto meet) {
        const auto lives = meet();
        std::vector<int> values{1};
        comm.all_reduce(std::span(values), ReduceOp::sum);
        if (comm.rank() == 2) {
            { const Communicator ended = std::move(comm); }
            left.count_down();
            return;
        }
        left.wait();
        if (comm.rank() == 0) {
            job.table.announce(lives[2]);
            for (std::uint64_t i = 1; i < 100; ++i) job.table.announce(lives[1] ^ i);
            // What is between the others goes on, though no call of all can.
            comm.send(std::span<const int>(values), 1);
        } else {
            comm.recv(std::span(values), 0);
        }
    });
}

TEST_CASE("a rank that is lost while the others connect is named", "[word]") {
    Job job(2);
    std::optional<Membership> joined;
    // Welcomes nobody.
    TcpListener silent("127.0.0.1");
    std::uint64_t life = 4711;
    run_ranks(2, [&](int rank) {
        if (rank == 0) {
            const auto error = expect_error(Code::peer_died, {1}, [&] { job.join(0); });
            expect(error.operation() == "join", error.what());
            return;
        }
        MemoryStore store(job.data);
        join_through(store, {1, 2, 0, "the other"}, {silent.endpoint(), "b", 1, life},
                     Gathering::Clock::now() + std::chrono::seconds(20));
        job.table.announce(life);
    });
}

TEST_CASE("a communicator that is made after a loss does not fail by it", "[word]") {
    Job job(2);
    job.run([&](Communicator& comm, auto meet) {
        const auto lives = meet();
        if (comm.rank() == 1) job.table.announce(lives[1]);
        expect_error(Code::peer_died, {1}, [&] { reduce_for_ever(comm); });
    });
    // The table is the round's; the processes are new ones.
    job.data = std::make_shared<MemoryStoreData>();
    job.run([](Communicator& comm, auto meet) {
        meet();
        for (int i = 0; i < 100; ++i) comm.barrier();
    });
}
