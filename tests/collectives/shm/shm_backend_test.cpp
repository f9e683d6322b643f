// The shared-memory backend with threads as ranks, against a plain fold over the ranks in their order; equal
// to the last bit.
#include "collectives/shm/shm_backend.hpp"

#include <sched.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <latch>
#include <random>
#include <vector>

#include "collectives/session/bootstrap.hpp"
#include "collectives/session/place.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fold.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

constexpr std::size_t kStage = kShmLargestStage;

template <class T>
void check_reductions(Communicator& comm, std::size_t salt, std::size_t count, ReduceOp op) {
    const int n = comm.world_size();
    const int rank = comm.rank();
    const std::string what = std::string(name_of(op)) + " of " + std::to_string(count) + ' ' +
                             std::string(name_of(data_type_of<T>())) + " on rank " + std::to_string(rank) +
                             " of " + std::to_string(n);
    const auto all = reduced<T>(salt, n, 0, count, op);
    const auto mine = input<T>(salt, rank, count);
    std::vector<T> out(count);
    comm.all_reduce(mine, std::span(out), op);
    expect(same<T>(out, all), "all_reduce " + what);
    expect(same<T>(mine, input<T>(salt, rank, count)), "input of all_reduce " + what);
    out = mine;
    comm.all_reduce(std::span(out), op);
    expect(same<T>(out, all), "all_reduce in place " + what);

    auto whole = input<T>(salt, rank, count * static_cast<std::size_t>(n));
    const std::size_t first = count * static_cast<std::size_t>(rank);
    const auto part = reduced<T>(salt, n, first, count, op);
    comm.reduce_scatter(whole, std::span(out), op);
    expect(same<T>(out, part), "reduce_scatter " + what);
    const auto own = std::span(whole).subspan(first, count);
    comm.reduce_scatter(whole, own, op);
    expect(same<T>(own, part), "reduce_scatter in place " + what);
}

template <class T>
void check_movements(Communicator& comm, std::size_t salt, std::size_t count, int root) {
    const int rank = comm.rank();
    const std::string what = std::to_string(count) + " on rank " + std::to_string(rank) + " of " +
                             std::to_string(comm.world_size());
    std::vector<T> expected;
    for (int peer = 0; peer < comm.world_size(); ++peer) {
        const auto theirs = input<T>(salt, peer, count);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    std::vector<T> all(expected.size());
    comm.all_gather(input<T>(salt, rank, count), std::span(all));
    expect(same<T>(all, expected), "all_gather of " + what);
    all.assign(all.size(), T{});
    const auto own = std::span(all).subspan(count * static_cast<std::size_t>(rank), count);
    std::copy_n(expected.begin() + rank * static_cast<std::ptrdiff_t>(count), count, own.begin());
    comm.all_gather(own, std::span(all));
    expect(same<T>(all, expected), "all_gather in place of " + what);
    auto data = input<T>(salt, rank, count);
    comm.broadcast(std::span(data), root);
    expect(same<T>(data, input<T>(salt, root, count)), "broadcast of " + what);
}

// Operations with a root, and all_to_all; out of place and in place.
template <class T>
void check_parts(Communicator& comm, std::size_t salt, std::size_t count, int root) {
    const int n = comm.world_size();
    const int rank = comm.rank();
    const auto ranks = static_cast<std::size_t>(n);
    const std::size_t first = count * static_cast<std::size_t>(rank);
    const std::string what = std::to_string(count) + " on rank " + std::to_string(rank) + " of " +
                             std::to_string(n) + ", root " + std::to_string(root);
    const auto mine = input<T>(salt, rank, count);
    std::vector<T> out(count);
    comm.reduce(mine, std::span(out), ReduceOp::sum, root);
    const auto sum = rank == root ? reduced<T>(salt, n, 0, count, ReduceOp::sum) : std::vector<T>(count);
    expect(same<T>(out, sum), "reduce of " + what);
    out = mine;
    comm.reduce(std::span(out), ReduceOp::sum, root);
    expect(same<T>(out, rank == root ? sum : mine), "reduce in place of " + what);

    std::vector<T> gathered;
    for (int peer = 0; peer < n; ++peer) {
        const auto theirs = input<T>(salt, peer, count);
        gathered.insert(gathered.end(), theirs.begin(), theirs.end());
    }
    std::vector<T> all(count * ranks);
    comm.gather(mine, std::span(all), root);
    expect(same<T>(all, rank == root ? gathered : std::vector<T>(all.size())), "gather of " + what);
    std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
    comm.gather(std::span(all).subspan(first, count), std::span(all), root);
    if (rank == root) expect(same<T>(all, gathered), "gather in place of " + what);

    auto whole = input<T>(salt, rank, count * ranks);
    const auto roots = input<T>(salt, root, count * ranks);
    const auto part = std::span(roots).subspan(first, count);
    comm.scatter(whole, std::span(out), root);
    expect(same<T>(out, part), "scatter of " + what);
    comm.scatter(whole, std::span(whole).subspan(first, count), root);
    expect(same<T>(std::span<const T>(whole).subspan(first, count), part), "scatter in place of " + what);

    whole = input<T>(salt, rank, count * ranks);
    comm.all_to_all(whole, std::span(all));
    comm.all_to_all(whole, std::span(whole));
    for (int peer = 0; peer < n; ++peer) {
        const auto theirs = input<T>(salt, peer, count * ranks);
        const auto place = static_cast<std::size_t>(peer) * count;
        const auto expected = std::span(theirs).subspan(first, count);
        expect(same<T>(std::span<const T>(all).subspan(place, count), expected), "all_to_all of " + what);
        expect(same<T>(std::span<const T>(whole).subspan(place, count), expected),
               "all_to_all in place of " + what);
    }
}

template <class T>
std::vector<std::size_t> counts_around_thresholds(int n) {
    const auto ranks = static_cast<std::size_t>(n);
    const std::size_t slot = ShmLayout(n).slot_payload();
    std::vector<std::size_t> counts{0, 1, 7};
    for (const std::size_t bytes :
         {std::size_t{56}, 56 / ranks, std::size_t{4096}, slot, slot / ranks, kStage / ranks}) {
        const std::size_t count = bytes / sizeof(T);
        counts.insert(counts.end(), {count > 0 ? count - 1 : 0, count, count + 1});
    }
    return counts;
}

std::unique_ptr<Session> join(const std::shared_ptr<MemoryStoreData>& data, int rank, int n,
                              Transport transport) {
    return open_session(std::make_shared<MemoryStore>(data), "127.0.0.1", {rank, n, -1, -1, 0, transport},
                        CommunicatorOptions{});
}

// Binds the calling thread and those that it starts, so that the ranks are more than CPUs on every machine.
class OnOneCpu {
  public:
    OnOneCpu() {
        REQUIRE(::sched_getaffinity(0, sizeof(before_), &before_) == 0);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(::sched_getcpu(), &one);
        REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
    }
    ~OnOneCpu() { ::sched_setaffinity(0, sizeof(before_), &before_); }
    OnOneCpu(const OnOneCpu&) = delete;
    OnOneCpu& operator=(const OnOneCpu&) = delete;

  private:
    cpu_set_t before_{};
};

int open_sockets() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        count += std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:") ? 1 : 0;
    }
    return count;
}

}  // namespace

TEMPLATE_TEST_CASE("shared memory gives a fold's bits at every threshold", "[shm][types]", float, double,
                   std::int32_t, std::int64_t) {
    for (const int n : {2, 3, 4, 7, 8}) {
        if (kIsSanitized && n > 4) continue;  // more ranks are in the cases below
        run_communicators(n, [&](Communicator& comm) {
            std::size_t salt = 0;
            for (const std::size_t count : counts_around_thresholds<TestType>(n)) {
                for (const ReduceOp op :
                     {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
                    if (count * sizeof(TestType) > 5000 && op != ReduceOp::avg) continue;
                    check_reductions<TestType>(comm, ++salt, count, op);
                }
                ++salt;
                check_movements<TestType>(comm, salt, count, static_cast<int>(salt) % n);
                check_parts<TestType>(comm, salt, count, static_cast<int>(salt) % n);
            }
        });
    }
}

TEST_CASE("shared memory gives a fold's bits around and above a whole stage", "[shm][types]") {
    for (const int n : {2, 5}) {
        if (kIsSanitized && n > 2) continue;  // more ranks are in the other cases
        run_communicators(n, [&](Communicator& comm) {
            std::size_t salt = 0;
            for (const std::size_t bytes : {kStage - 4, kStage, kStage + 4, 4 * kStage + 20}) {
                check_reductions<float>(comm, ++salt, bytes / 4, ReduceOp::sum);
                check_movements<float>(comm, ++salt, bytes / 4, n - 1);
                check_parts<float>(comm, ++salt, bytes / 4, 1);
            }
            check_reductions<std::int64_t>(comm, ++salt, 3 * kStage / 8 + 1, ReduceOp::max);
        });
    }
}

TEST_CASE("any sequence of operations keeps every rank's data apart", "[shm]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {2, 4, 5}) {
        run_communicators(n, [&](Communicator& comm) {
            std::mt19937 random(seed);  // the same on all ranks
            for (std::size_t salt = 1; salt <= (kIsSanitized ? 100 : 300); ++salt) {
                const std::size_t limit = std::size_t{1} << (random() % 19);
                const std::size_t count = random() % limit;
                const int root = static_cast<int>(random() % static_cast<unsigned>(n));
                auto data = input<float>(salt, comm.rank(), count);
                switch (random() % 4) {
                    case 0: comm.barrier(); break;
                    case 1:
                        comm.all_reduce(std::span(data), ReduceOp::sum);
                        expect(same<float>(data, reduced<float>(salt, n, 0, count, ReduceOp::sum)), "sum");
                        break;
                    default:
                        comm.broadcast(std::span(data), root);
                        expect(same<float>(data, input<float>(salt, root, count)), "broadcast");
                }
            }
        });
    }
}

TEST_CASE("both types of stores give the same bits", "[shm]") {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(3, [&](int rank) {
        auto session = join(data, rank, 3, Transport::automatic);
        auto& backend = dynamic_cast<ShmBackend&>(session->executor->backend());
        Communicator comm(std::move(session));
        for (std::size_t salt = 1; salt <= (kIsSanitized ? 4 : 12); ++salt) {
            // Of each rank its own; both are to work side by side.
            const bool past = (salt + static_cast<std::size_t>(rank)) % 2 == 0;
            backend.set_store_type(past ? StoreType::non_temporal : StoreType::plain);
            const std::size_t count = 10'000 * salt + salt;
            check_reductions<float>(comm, salt, count, ReduceOp::sum);
            check_movements<float>(comm, salt, count, static_cast<int>(salt) % 3);
            check_parts<float>(comm, salt, count, static_cast<int>(salt) % 3);
        }
    });
}

TEST_CASE("copies past the caches copy every byte, and no other", "[shm]") {
    for (const StoreType type : {StoreType::plain, StoreType::non_temporal}) {
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kLeastNonTemporal - 1,
                                       kLeastNonTemporal, kLeastNonTemporal + 63, std::size_t{10'001}}) {
            for (const std::size_t offset : {0, 1, 15, 16, 63, 64}) {
                const auto from = input<unsigned char>(size, 0, size + 3);
                std::vector<unsigned char> to(size + 200, 0xee);
                auto expected = to;
                std::copy_n(from.begin() + 3, size, expected.begin() + static_cast<std::ptrdiff_t>(offset));
                copy_shared(type, to.data() + offset, from.data() + 3, size);
                REQUIRE(to == expected);
            }
        }
    }
}

TEST_CASE("32 ranks on however few CPUs there are come through", "[shm]") {
    run_communicators(32, [](Communicator& comm) {
        for (std::size_t salt = 1; salt <= (kIsSanitized ? 3 : 20); ++salt) {
            check_reductions<float>(comm, 2 * salt, 1 + salt % 3, ReduceOp::sum);
            check_movements<float>(comm, 2 * salt + 1, 500, static_cast<int>(salt));
        }
        // Longer than a stage; of values that cost each rank little to know.
        std::vector<float> data(kStage / 4 + 3);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7);
        const std::vector<float> one = data;
        comm.all_reduce(std::span(data), ReduceOp::sum);
        for (std::size_t i = 0; i < data.size(); ++i) expect(data[i] == 32 * one[i], "a long sum");
    });
}

TEST_CASE("ranks that share one CPU get a fold's bits, whoever is the last to come", "[shm]") {
    const OnOneCpu bound;
    // The last of these sleep at once.
    for (const int n : {2, 3, 20}) {
        run_communicators(n, [&](Communicator& comm) {
            std::size_t salt = 0;
            for (const std::size_t count : counts_around_thresholds<float>(n)) {
                const int root = static_cast<int>(++salt) % n;
                check_reductions<float>(comm, salt, count, ReduceOp::avg);
                check_movements<float>(comm, salt, count, root);
                if (n < 20) check_parts<float>(comm, salt, count, root);
            }
        });
    }
}

TEST_CASE("of ranks that share one CPU, all that stay away are named, and who calls something else",
          "[shm]") {
    const OnOneCpu bound;
    std::latch failed(2);
    run_communicators(
        4,
        [&](Communicator& comm) {
            if (comm.rank() >= 2) failed.wait();
            expect_error(Code::timed_out, {2, 3}, [&] { comm.barrier(); });
            if (comm.rank() < 2) failed.count_down();
        },
        short_operations());
    run_communicators(4, [](Communicator& comm) {
        std::vector<float> data(comm.rank() == 1 ? 3 : 2);
        expect_error(Code::mismatch, {1}, [&] { comm.all_reduce(std::span(data), ReduceOp::sum); });
    });
}

TEST_CASE("a rank has as many connections as two neighbours and a tree need", "[shm]") {
    constexpr int kRanks = 32;
    const int before = open_sockets();
    std::latch counted(1);
    run_communicators(kRanks, [&](Communicator& comm) {
        // All ranks are in this process, so it has both ends of each of the 32 + 2 * 31, and a listener for
        // each rank.
        if (comm.rank() == 0) {
            expect(open_sockets() - before <= 2 * (kRanks + 2 * (kRanks - 1)) + kRanks, "few connections");
            counted.count_down();
        }
        counted.wait();
    });
}

TEST_CASE("ranks of one host share memory unless one of them does not want to", "[shm]") {
    for (const int unwilling : {-1, 0, 2}) {
        const auto data = std::make_shared<MemoryStoreData>();
        run_ranks(3, [&](int rank) {
            auto session = join(data, rank, 3, rank == unwilling ? Transport::tcp : Transport::automatic);
            const bool shared = dynamic_cast<ShmBackend*>(&session->executor->backend()) != nullptr;
            expect(shared == (unwilling < 0), "all ranks decide alike");
            Communicator comm(std::move(session));
            check_reductions<std::int32_t>(comm, 1, 1000, ReduceOp::sum);
            check_movements<float>(comm, 2, 100'000, 1);
        });
    }
}

TEST_CASE("DDPRUN_TRANSPORT is read, and a wrong value is named", "[shm]") {
    REQUIRE(read_transport({}) == Transport::automatic);
    REQUIRE(read_transport({{"DDPRUN_TRANSPORT", "auto"}}) == Transport::automatic);
    REQUIRE(read_transport({{"DDPRUN_TRANSPORT", "tcp"}}) == Transport::tcp);
    for (const char* wrong : {"", "TCP", "shm"}) {
        const auto error = expect_error(Code::invalid_argument, {}, [&] {
            static_cast<void>(read_transport({{"DDPRUN_TRANSPORT", wrong}}));
        });
        REQUIRE(std::string(error.what()).find("DDPRUN_TRANSPORT") != std::string::npos);
    }
}

TEST_CASE("a mismatch of large calls is told before any data are used", "[shm]") {
    using Calling = std::function<void(Communicator&, std::vector<float>&)>;
    const Calling reduce = [](Communicator& comm, std::vector<float>& data) {
        comm.all_reduce(std::span(data), ReduceOp::sum);
    };
    const Calling shorter = [](Communicator& comm, std::vector<float>& data) {
        comm.all_reduce(std::span(data).first(data.size() - 1), ReduceOp::sum);
    };
    const Calling from_0 = [](Communicator& comm, std::vector<float>& data) {
        comm.broadcast(std::span(data), 0);
    };
    const Calling from_1 = [](Communicator& comm, std::vector<float>& data) {
        comm.broadcast(std::span(data), 1);
    };
    const std::pair<Calling, Calling> pairs[] = {
        {reduce, shorter}, {reduce, from_0}, {from_0, reduce}, {from_0, from_1}};
    for (const std::size_t count : {std::size_t{14}, std::size_t{2048}, 5 * kStage / 4}) {
        for (const auto& [right, wrong] : pairs) {
            run_communicators(2, [&, right = right, wrong = wrong](Communicator& comm) {
                std::vector<float> data(count);
                const auto error = expect_error(Code::mismatch, {0, 1}, [&] {
                    (comm.rank() == 1 ? wrong : right)(comm, data);
                    comm.barrier();
                });
                expect(std::string(error.what()).find("called") != std::string::npos, error.what());
                expect_error(Code::mismatch, {0, 1}, [&] { comm.barrier(); });
            });
        }
    }
}

TEST_CASE("abort reaches ranks asleep in shared memory", "[shm]") {
    run_communicators(3, [](Communicator& comm) {
        // Rank 2 never comes, so the others sleep until they are told.
        if (comm.rank() == 2) comm.abort("enough");
        expect_error(Code::aborted, {2}, [&] { comm.barrier(); });
    });
}
