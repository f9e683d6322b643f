// Every verb × type × operation × number of ranks against the straightforward reference. Ranks are threads.
#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/operation_checks.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

constexpr int kWorldSizes[] = {1, 2, 3, 4, 7};
// The last is beyond every switch to an algorithm for large messages, even with one byte an element.
constexpr std::size_t kCounts[] = {0, 1, 13, 1009, 70'001};

// Every rank makes all inputs, which takes long where memory is watched.
bool worth_a_large_one(int world_size, ReduceOp op) {
    const bool distinct = op == ReduceOp::avg || op == ReduceOp::min || op == ReduceOp::premul_sum;
    return world_size <= 3 && distinct;
}

}  // namespace

TEMPLATE_TEST_CASE("reductions agree with the reference for every type", "[operations][types]", float, double,
                   Float16, BFloat16, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : kWorldSizes) {
        run_communicators(n, [&](Communicator& comm) {
            for (const std::size_t count : kCounts) {
                for (const ReduceOp op : kAllOps) {
                    if (!is_defined(op, data_type_of<TestType>())) continue;
                    if (count > 10'000 && !worth_a_large_one(n, op)) continue;
                    check_all_reduce<TestType>(comm, seed, count, op);
                    check_reduce<TestType>(comm, seed, count, op);
                    if (count < 10'000) check_reduce_scatter<TestType>(comm, seed, count, op);
                }
            }
        });
    }
}

TEMPLATE_TEST_CASE("parts arrive where they belong, for every type", "[operations][types]", float, double,
                   Float16, BFloat16, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : kWorldSizes) {
        run_communicators(n, [&](Communicator& comm) {
            for (const std::size_t count : kCounts) {
                if (count > 10'000 && (n > 3 || sizeof(TestType) != 4)) continue;
                check_rooted_movements<TestType>(comm, seed, count);
                check_all_to_all<TestType>(comm, seed, count);
            }
        });
    }
}

TEST_CASE("swaps and gathers larger than all the sockets' buffers never stand still", "[operations]") {
    // Races show with less, too, of which the sanitizers are slow enough.
    constexpr std::size_t kCount = (std::size_t{kIsSanitized ? 1 : 8} << 20) / sizeof(float) + 3;
    run_communicators(2, [&](Communicator& comm) {
        check_rooted_movements<float>(comm, 3, kCount);
        check_all_to_all<float>(comm, 4, kCount);
    });
}

TEMPLATE_TEST_CASE("16-bit sums are rounded once, large ones too", "[operations][types]", Float16, BFloat16) {
    // 1 + 4 * a quarter of the last bit: rounding at each step would stay at 1.
    const TestType one(1.0F);
    const float last_bit = static_cast<float>(TestType::from_bits(one.bits + 1)) - 1.0F;
    for (const std::size_t count : {std::size_t{5}, std::size_t{100'003}}) {
        run_communicators(5, [&](Communicator& comm) {
            std::vector<TestType> data(count, comm.rank() == 0 ? one : TestType(last_bit / 4));
            auto at_root = data;
            const std::vector<TestType> expected(count, TestType(1.0F + last_bit));
            comm.all_reduce(std::span(data), ReduceOp::sum);
            expect(data == expected, "rounded once");
            comm.reduce(std::span(at_root), ReduceOp::sum, 3);
            expect(comm.rank() != 3 || at_root == expected, "rounded once at the root");
        });
    }
}

TEST_CASE("operations without a meaning for the type are refused", "[operations]") {
    for (const int n : {1, 2}) {
        run_communicators(n, [&](Communicator& comm) {
            const auto refused = [&](auto element, const Reduction& reduction) {
                std::vector<decltype(element)> data(4);
                const auto error = expect_error(CollectiveErrorCode::invalid_argument, {},
                                                [&] { comm.all_reduce(std::span(data), reduction); });
                const std::string text = error.what();
                expect(text.find("is not defined for") != std::string::npos, text);
                expect_error(CollectiveErrorCode::invalid_argument, {}, [&] {
                    comm.reduce_scatter(data, std::span(data).first(4 / static_cast<std::size_t>(n)),
                                        reduction);
                });
            };
            for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
                refused(float{}, op);
                refused(double{}, op);
                refused(Float16{}, op);
                refused(BFloat16{}, op);
            }
            refused(int{}, premul_sum(2));
            refused(std::uint8_t{}, ReduceOp::premul_sum);
            comm.barrier();
        });
    }
}

TEST_CASE("premul_sum leaves the inputs alone and has scalar 1 unless told", "[operations]") {
    run_communicators(3, [](Communicator& comm) {
        const std::vector<float> in(6, 3.0F);
        std::vector<float> out(6);
        comm.all_reduce(in, std::span(out), ReduceOp::premul_sum);
        expect(out == std::vector<float>(6, 9.0F), "scalar 1");
        comm.all_reduce(in, std::span(out), premul_sum(1.0 / 3));
        expect(out == std::vector<float>(6, 3.0F), "a third each");
        comm.reduce_scatter(in, std::span(out).first(2), premul_sum(2));
        expect(out[0] == 18.0F && in == std::vector<float>(6, 3.0F), "inputs as before");
    });
}

TEST_CASE("wrong arguments of rooted calls are refused and leave the communicator usable", "[operations]") {
    for (const int n : {1, 2}) {
        run_communicators(n, [&](Communicator& comm) {
            std::vector<float> data(8);
            const auto ranks = static_cast<std::size_t>(n);
            const int self = comm.rank();
            void* p = data.data();
            const auto type = static_cast<DataType>(99);
            const auto refused = [&](const std::function<void()>& body) {
                expect_error(CollectiveErrorCode::invalid_argument, {}, body);
            };
            for (const int root : {-1, n}) {
                refused([&] { comm.reduce(std::span(data), ReduceOp::sum, root); });
                refused([&] { comm.gather(p, p, 1, DataType::f32, root); });
                refused([&] { comm.scatter(p, p, 1, DataType::f32, root); });
            }
            refused([&] { comm.reduce(nullptr, p, 1, DataType::f32, ReduceOp::sum, 0); });
            refused([&] { comm.reduce(p, nullptr, 1, DataType::f32, ReduceOp::sum, self); });
            refused([&] { comm.reduce(p, data.data() + 1, 2, DataType::f32, ReduceOp::sum, self); });
            refused([&] { comm.reduce(p, p, 1, DataType::f32, ReduceOp::bor, 0); });
            refused([&] { comm.gather(p, nullptr, 1, DataType::f32, self); });
            refused([&] { comm.gather(data.data() + ranks, p, ranks + 1, DataType::f32, self); });
            refused([&] { comm.gather(p, p, 1, type, self); });
            refused([&] { comm.gather(std::span(data).first(3), std::span(data).first(4), self); });
            refused([&] { comm.scatter(nullptr, p, 1, DataType::f32, self); });
            refused([&] { comm.scatter(p, nullptr, 1, DataType::f32, 0); });
            refused([&] { comm.scatter(std::span(data), std::span(data).first(7), self); });
            refused([&] { comm.all_to_all(nullptr, p, 1, DataType::f32); });
            refused([&] { comm.all_to_all(p, data.data() + 1, 2, DataType::f32); });
            refused([&] { comm.all_to_all(std::span(data).first(4), std::span(data).first(2)); });
            if (n == 2) {
                refused([&] { comm.all_to_all(std::span(data).first(3), std::span(data).last(3)); });
                const int other = 1 - self;
                refused([&] { comm.gather(nullptr, nullptr, 1, DataType::f32, other); });
            }
            comm.gather(nullptr, nullptr, 0, DataType::f32, 0);
            comm.barrier();
        });
    }
}
