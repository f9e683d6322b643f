#include "collectives/communicator.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <latch>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};

// Small whole numbers, so that floating point is exact in any order of reduction, also for the product of 8.
template <class T>
T value_of(int rank, std::size_t i) {
    return static_cast<T>(static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5) - 2);
}

template <class T>
T reduced_value(int world_size, std::size_t i, ReduceOp op) {
    T result = value_of<T>(0, i);
    for (int rank = 1; rank < world_size; ++rank) result = reduce_two(op, result, value_of<T>(rank, i));
    return op == ReduceOp::avg ? static_cast<T>(result / static_cast<T>(world_size)) : result;
}

template <class T>
std::vector<T> values(int rank, std::size_t count, std::size_t first = 0) {
    std::vector<T> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = value_of<T>(rank, first + i);
    return data;
}

template <class T>
std::vector<T> reduced_values(int world_size, std::size_t count, ReduceOp op, std::size_t first = 0) {
    std::vector<T> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = reduced_value<T>(world_size, first + i, op);
    return data;
}

std::string at(const Communicator& comm, const char* what, std::size_t count) {
    return std::string(what) + " of " + std::to_string(count) + " on rank " + std::to_string(comm.rank()) +
           " of " + std::to_string(comm.world_size());
}

template <class T>
void check_reductions(Communicator& comm, std::size_t count, ReduceOp op) {
    const int n = comm.world_size();
    const auto mine = values<T>(comm.rank(), count);
    const auto all = reduced_values<T>(n, count, op);
    std::vector<T> out(count, T{77});
    comm.all_reduce(mine, std::span(out), op);
    expect(out == all, at(comm, "all_reduce", count));
    expect(mine == values<T>(comm.rank(), count), at(comm, "input of all_reduce", count));
    auto in_place = mine;
    comm.all_reduce(std::span(in_place), op);
    expect(in_place == all, at(comm, "all_reduce in place", count));

    const auto whole = values<T>(comm.rank(), count * static_cast<std::size_t>(n));
    const auto part = reduced_values<T>(n, count, op, count * static_cast<std::size_t>(comm.rank()));
    comm.reduce_scatter(whole, std::span(out), op);
    expect(out == part, at(comm, "reduce_scatter", count));
    auto shared = whole;
    const auto own = std::span(shared).subspan(count * static_cast<std::size_t>(comm.rank()), count);
    comm.reduce_scatter(shared, own, op);
    expect(std::equal(own.begin(), own.end(), part.begin()), at(comm, "reduce_scatter in place", count));
}

template <class T>
void check_movements(Communicator& comm, std::size_t count) {
    const int n = comm.world_size();
    const auto mine = values<T>(comm.rank(), count);
    std::vector<T> expected;
    for (int rank = 0; rank < n; ++rank) {
        const auto theirs = values<T>(rank, count);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    std::vector<T> gathered(expected.size(), T{77});
    comm.all_gather(mine, std::span(gathered));
    expect(gathered == expected, at(comm, "all_gather", count));
    std::vector<T> shared(expected.size(), T{77});
    const auto own = std::span(shared).subspan(count * static_cast<std::size_t>(comm.rank()), count);
    std::copy(mine.begin(), mine.end(), own.begin());
    comm.all_gather(own, std::span(shared));
    expect(shared == expected, at(comm, "all_gather in place", count));
    for (int root = 0; root < n; ++root) {
        auto data = mine;
        comm.broadcast(std::span(data), root);
        expect(data == values<T>(root, count), at(comm, "broadcast", count));
    }
}

// Everybody to the next: even ranks send first, odd ranks receive first, and the last of an odd number too.
template <class T>
void check_messages(Communicator& comm, std::size_t count) {
    const int n = comm.world_size();
    const int right = (comm.rank() + 1) % n;
    const int left = (comm.rank() + n - 1) % n;
    const auto mine = values<T>(comm.rank(), count);
    std::vector<T> theirs(count, T{77});
    if (comm.rank() % 2 == 0) comm.send(std::span(mine), right);
    comm.recv(std::span(theirs), left);
    if (comm.rank() % 2 == 1) comm.send(std::span(mine), right);
    expect(theirs == values<T>(left, count), at(comm, "recv", count));
}

std::vector<std::size_t> sizes_for(int n) {
    const auto ranks = static_cast<std::size_t>(n);
    return {0, 1, ranks - 1, ranks, ranks + 1, 7, 1009, 16'384 / ranks, 16'384 / ranks + 1, 20'011};
}

}  // namespace

TEMPLATE_TEST_CASE("every operation gives the right values for every type, size and number of ranks",
                   "[communicator][types]", float, double, std::int32_t, std::int64_t) {
    for (const int n : {1, 2, 3, 4, 5, 8}) {
        run_communicators(n, [&](Communicator& comm) {
            for (const std::size_t count : sizes_for(n)) {
                for (const ReduceOp op : kOps) check_reductions<TestType>(comm, count, op);
                check_movements<TestType>(comm, count);
                if (n > 1) check_messages<TestType>(comm, count);
                comm.barrier();
            }
        });
    }
}

TEST_CASE("buffers larger than all the sockets' buffers never stand still", "[communicator]") {
    // Races show with less, too, of which the sanitizers are slow enough.
    constexpr std::size_t kCount = (std::size_t{kIsSanitized ? 3 : 24} << 20) / sizeof(float) + 5;
    for (const int n : {2, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            check_movements<float>(comm, kCount / 4);
            auto data = values<float>(comm.rank(), kCount);
            comm.all_reduce(std::span(data), ReduceOp::sum);
            expect(data == reduced_values<float>(n, kCount, ReduceOp::sum), "all_reduce of all");
        });
    }
}

// Rank 1 receives two steps while it can send nothing: what it has not sent yet must not be overwritten.
TEST_CASE("reduce_scatter holds its left neighbour back while its right one is late", "[communicator]") {
    constexpr std::size_t kPart = (std::size_t{6} << 20) / sizeof(std::int32_t);
    constexpr int kRanks = 4;
    std::latch ready(kRanks);
    run_communicators(kRanks, [&](Communicator& comm) {
        std::vector<std::int32_t> part(kPart);
        if (comm.rank() == 2) ready.arrive_and_wait();
        // Rank 2 begins to prepare its input when the others are done with theirs.
        const auto whole = values<std::int32_t>(comm.rank(), kPart * kRanks);
        if (comm.rank() != 2) ready.arrive_and_wait();
        comm.reduce_scatter(whole, std::span(part), ReduceOp::sum);
        const std::size_t first = kPart * static_cast<std::size_t>(comm.rank());
        expect(part == reduced_values<std::int32_t>(kRanks, kPart, ReduceOp::sum, first),
               "every part is right");
    });
}

TEST_CASE("floating-point results are bitwise equal on all ranks and from run to run", "[communicator]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {2, 3, 5, 8}) {
        for (const std::size_t count : {3, 1009, 50'021}) {
            std::vector<std::vector<float>> results(static_cast<std::size_t>(2 * n));
            for (int run = 0; run < 2; ++run) {
                run_communicators(n, [&](Communicator& comm) {
                    std::mt19937 random(seed + static_cast<unsigned>(comm.rank()));
                    std::uniform_real_distribution<float> any(-1e6F, 1e6F);
                    std::vector<float> data(count);
                    for (float& x : data) x = any(random);
                    comm.all_reduce(std::span(data), ReduceOp::avg);
                    results[static_cast<std::size_t>(run * n + comm.rank())] = std::move(data);
                });
            }
            for (const auto& result : results) {
                REQUIRE(std::memcmp(result.data(), results[0].data(), count * sizeof(float)) == 0);
            }
        }
    }
}

TEST_CASE("nobody passes a barrier before all have come", "[communicator]") {
    std::atomic<int> arrived{0};
    run_communicators(5, [&](Communicator& comm) {
        for (int round = 1; round <= 50; ++round) {
            ++arrived;
            comm.barrier();
            expect(arrived >= 5 * round, "all have arrived");
            comm.barrier();
        }
    });
}

TEST_CASE("wrong arguments are refused and leave the communicator usable", "[communicator]") {
    for (const int n : {1, 2}) {
        run_communicators(n, [&](Communicator& comm) {
            std::vector<float> data(8);
            const auto refused = [&](const std::function<void()>& body) {
                expect_error(CollectiveErrorCode::invalid_argument, {}, body);
            };
            const auto type = static_cast<DataType>(99);
            const auto op = static_cast<ReduceOp>(99);
            void* p = data.data();
            const std::byte* odd = std::as_bytes(std::span(data)).data() + 1;
            const std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
            refused([&] { comm.all_reduce(nullptr, p, 4, DataType::f32, ReduceOp::sum); });
            refused([&] { comm.all_reduce(p, nullptr, 4, DataType::f32, ReduceOp::sum); });
            refused([&] { comm.all_reduce(p, p, 4, type, ReduceOp::sum); });
            refused([&] { comm.all_reduce(p, p, 4, DataType::f32, op); });
            refused([&] { comm.all_reduce(odd, p, 1, DataType::f32, ReduceOp::sum); });
            refused([&] { comm.all_reduce(p, data.data() + 1, 4, DataType::f32, ReduceOp::sum); });
            refused([&] { comm.all_reduce(p, p, huge, DataType::f32, ReduceOp::sum); });
            refused(
                [&] { comm.all_reduce(std::span(data).first(3), std::span(data).last(4), ReduceOp::sum); });
            refused([&] { comm.broadcast(std::span(data), n); });
            refused([&] { comm.broadcast(std::span(data), -1); });
            refused([&] { comm.all_gather(nullptr, p, 1, DataType::f32); });
            refused([&] { comm.all_gather(std::span(data).first(8), std::span(data).first(7)); });
            refused([&] {
                comm.reduce_scatter(std::span(data).first(7), std::span(data).first(8), ReduceOp::sum);
            });
            refused([&] { comm.send(std::span(data), comm.rank()); });
            refused([&] { comm.send(std::span(data), n); });
            refused([&] { comm.recv(std::span(data), -1); });
            refused([&] { comm.recv(p, 1, type, 0); });
            comm.all_reduce(nullptr, nullptr, 0, DataType::f32, ReduceOp::sum);
            std::vector<int> ones{1};
            comm.all_reduce(std::span(ones), ReduceOp::sum);
            expect(ones[0] == n, "the communicator still works");
        });
    }
}

TEST_CASE("a moved-from communicator refuses instead of crashing", "[communicator]") {
    Communicator first = Communicator::connect("file:///unused", 0, 1);
    Communicator second = std::move(first);
    expect_error(CollectiveErrorCode::invalid_argument, {}, [&] { first.barrier(); });
    expect_error(CollectiveErrorCode::invalid_argument, {}, [&] { static_cast<void>(first.rank()); });
    second.barrier();
    REQUIRE(second.local_world_size() == 1);
}

TEST_CASE("a second thread's call waits for its turn, and a wrong one is refused meanwhile",
          "[communicator]") {
    std::latch refused(1);
    run_communicators(2, [&](Communicator& comm) {
        std::vector<int> data(1, 7);
        std::vector<int> more(1, 8);
        if (comm.rank() == 1) {
            refused.wait();
            comm.send(std::span(data), 0);
            return comm.send(std::span(more), 0);
        }
        CountDown down(refused);
        std::vector<int> first(1);
        const Work begun = comm.async().recv(std::span(first), 1);
        std::vector<int> second(1);
        std::thread other([&] { comm.recv(std::span(second), 1); });
        expect_error(CollectiveErrorCode::invalid_argument, {},
                     [&] { comm.recv(nullptr, 0, static_cast<DataType>(99), 1); });
        down.now();
        other.join();
        begun.wait();
        expect(first[0] == 7 && second[0] == 8, "in the order in which they were asked for");
    });
}

TEST_CASE("invalid places and URLs are refused", "[bootstrap]") {
    const auto refused = [](const char* url, int rank, int world_size) {
        expect_error(CollectiveErrorCode::invalid_argument, {},
                     [&] { Communicator::connect(url, rank, world_size); });
    };
    for (const char* url :
         {"", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:70000", "http://host:80", "file://"}) {
        INFO(url);
        refused(url, 0, 1);
    }
    refused("tcp://127.0.0.1:1", 2, 2);
    refused("tcp://127.0.0.1:1", -1, 2);
    refused("tcp://127.0.0.1:1", 0, 0);
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::milliseconds(0);
    expect_error(CollectiveErrorCode::invalid_argument, {},
                 [&] { Communicator::connect("file:///unused", 0, 1, options); });
}
