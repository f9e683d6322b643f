// Every verb × type × operation × number of ranks against the straightforward reference. Ranks are threads.
#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum,        ReduceOp::prod, ReduceOp::min,
                             ReduceOp::max,        ReduceOp::avg,  ReduceOp::bxor,
                             ReduceOp::premul_sum, ReduceOp::band, ReduceOp::bor};
constexpr int kWorldSizes[] = {1, 2, 3, 4, 7};
// The last is beyond every switch to an algorithm for large messages, even with one byte an element.
constexpr std::size_t kCounts[] = {0, 1, 13, 1009, 70'001};

// All ranks' inputs, which every rank makes for itself.
template <class T>
using Inputs = std::vector<std::vector<T>>;

template <class T>
Inputs<T> make_inputs(unsigned seed, int world_size, std::size_t count, ReduceOp op) {
    std::mt19937 random(seed);
    Inputs<T> inputs(static_cast<std::size_t>(world_size));
    for (auto& input : inputs) {
        for (std::size_t i = 0; i < count; ++i) input.push_back(random_element<T>(random, op));
    }
    return inputs;
}

template <class T>
std::vector<T> reference(const Inputs<T>& inputs, ReduceOp op, std::size_t first, std::size_t count) {
    std::vector<T> results;
    std::vector<T> values(inputs.size());
    for (std::size_t i = first; i < first + count; ++i) {
        for (std::size_t rank = 0; rank < inputs.size(); ++rank) values[rank] = inputs[rank][i];
        results.push_back(reference_reduction(op, values));
    }
    return results;
}

// A rank's own scalar: powers of two, so that the products are exact.
Reduction reduction_on(int rank, ReduceOp op) {
    return op == ReduceOp::premul_sum ? premul_sum(rank % 2 == 0 ? 0.5 : -2.0) : Reduction(op);
}

// The inputs as premul_sum sums them.
template <class T>
Inputs<T> multiplied(Inputs<T> inputs, ReduceOp op) {
    if constexpr (!std::is_integral_v<T>) {
        for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
            const double scalar = reduction_on(static_cast<int>(rank), op).scalar;
            for (T& x : inputs[rank]) x = T(static_cast<float>(x) * static_cast<float>(scalar));
        }
    }
    return inputs;
}

std::string at(const char* what, std::size_t count, ReduceOp op, const Communicator& comm) {
    return std::string(what) + '(' + std::string(name_of(op)) + ") of " + std::to_string(count) +
           " on rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.world_size());
}

template <class T>
void check_all_reduce(Communicator& comm, unsigned seed, std::size_t count, ReduceOp op) {
    const auto inputs = make_inputs<T>(seed, comm.world_size(), count, op);
    const auto expected = reference(multiplied(inputs, op), op, 0, count);
    const Reduction reduction = reduction_on(comm.rank(), op);
    auto mine = inputs[static_cast<std::size_t>(comm.rank())];
    std::vector<T> out(count);
    comm.all_reduce(mine, std::span(out), reduction);
    expect(out == expected, at("all_reduce", count, op, comm));
    comm.all_reduce(std::span(mine), reduction);
    expect(mine == expected, at("all_reduce in place", count, op, comm));
}

template <class T>
void check_reduce_scatter(Communicator& comm, unsigned seed, std::size_t count, ReduceOp op) {
    const auto ranks = static_cast<std::size_t>(comm.world_size());
    const std::size_t first = count * static_cast<std::size_t>(comm.rank());
    const auto inputs = make_inputs<T>(seed, comm.world_size(), count * ranks, op);
    const auto expected = reference(multiplied(inputs, op), op, first, count);
    const Reduction reduction = reduction_on(comm.rank(), op);
    auto mine = inputs[static_cast<std::size_t>(comm.rank())];
    std::vector<T> out(count);
    comm.reduce_scatter(mine, std::span(out), reduction);
    expect(out == expected, at("reduce_scatter", count, op, comm));
    comm.reduce_scatter(mine, std::span(mine).subspan(first, count), reduction);
    std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(first), count, out.begin());
    expect(out == expected, at("reduce_scatter in place", count, op, comm));
}

template <class T>
void check_reduce(Communicator& comm, unsigned seed, std::size_t count, ReduceOp op) {
    const int n = comm.world_size();
    const auto inputs = make_inputs<T>(seed, n, count, op);
    const auto expected = reference(multiplied(inputs, op), op, 0, count);
    const Reduction reduction = reduction_on(comm.rank(), op);
    const auto& mine = inputs[static_cast<std::size_t>(comm.rank())];
    for (int root = 0; root < n; root += 1 + n / 3) {
        std::vector<T> out(comm.rank() == root ? count : 0);
        comm.reduce(mine, std::span(out), reduction, root);
        expect(comm.rank() != root || out == expected, at("reduce", count, op, comm));
        auto in_place = mine;
        comm.reduce(std::span(in_place), reduction, root);
        expect(in_place == (comm.rank() == root ? expected : mine), at("reduce in place", count, op, comm));
    }
}

// One rank's input as parts for all ranks, and what is expected of them where.
template <class T>
std::span<T> part_of(std::vector<T>& whole, int rank, std::size_t count) {
    return std::span(whole).subspan(static_cast<std::size_t>(rank) * count, count);
}

template <class T>
bool same(std::span<const T> a, std::span<const T> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

template <class T>
void check_rooted_movements(Communicator& comm, unsigned seed, std::size_t count) {
    const int n = comm.world_size();
    auto whole = make_inputs<T>(seed, 1, count * static_cast<std::size_t>(n), ReduceOp::sum)[0];
    const std::span<T> mine = part_of(whole, comm.rank(), count);
    for (int root = 0; root < n; ++root) {
        const bool is_root = comm.rank() == root;
        std::vector<T> gathered(is_root ? whole.size() : 0);
        comm.gather(mine, std::span(gathered), root);
        expect(!is_root || gathered == whole, at("gather", count, ReduceOp::sum, comm));
        std::vector<T> shared(whole.size());
        const auto own = part_of(shared, comm.rank(), count);
        std::copy(mine.begin(), mine.end(), own.begin());
        comm.gather(own, std::span(shared), root);
        expect(!is_root || shared == whole, at("gather in place", count, ReduceOp::sum, comm));

        std::vector<T> out(count);
        comm.scatter(is_root ? std::span<const T>(whole) : std::span<const T>(), std::span(out), root);
        expect(same<T>(out, mine), at("scatter", count, ReduceOp::sum, comm));
        shared.assign(is_root ? whole.begin() : whole.end(), whole.end());
        if (is_root) comm.scatter(shared, part_of(shared, root, count), root);
        if (!is_root) comm.scatter(shared, std::span(out), root);
        expect(!is_root || shared == whole, at("scatter in place", count, ReduceOp::sum, comm));
    }
}

template <class T>
void check_all_to_all(Communicator& comm, unsigned seed, std::size_t count) {
    const int n = comm.world_size();
    auto inputs = make_inputs<T>(seed, n, count * static_cast<std::size_t>(n), ReduceOp::sum);
    std::vector<T> expected;
    for (auto& input : inputs) {
        const auto part = part_of(input, comm.rank(), count);
        expected.insert(expected.end(), part.begin(), part.end());
    }
    auto& mine = inputs[static_cast<std::size_t>(comm.rank())];
    std::vector<T> out(mine.size());
    comm.all_to_all(mine, std::span(out));
    expect(out == expected, at("all_to_all", count, ReduceOp::sum, comm));
    comm.all_to_all(mine, std::span(mine));
    expect(mine == expected, at("all_to_all in place", count, ReduceOp::sum, comm));
}

}  // namespace

TEMPLATE_TEST_CASE("reductions agree with the reference for every type", "[operations]", float, double,
                   Float16, BFloat16, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : kWorldSizes) {
        run_communicators(n, [&](Communicator& comm) {
            for (const std::size_t count : kCounts) {
                for (const ReduceOp op : kOps) {
                    if (!is_defined(op, data_type_of<TestType>())) continue;
                    check_all_reduce<TestType>(comm, seed, count, op);
                    check_reduce<TestType>(comm, seed, count, op);
                    if (count < 10'000) check_reduce_scatter<TestType>(comm, seed, count, op);
                }
            }
        });
    }
}

TEMPLATE_TEST_CASE("parts arrive where they belong, for every type", "[operations]", float, double, Float16,
                   BFloat16, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : kWorldSizes) {
        run_communicators(n, [&](Communicator& comm) {
            for (const std::size_t count : kCounts) {
                if (count > 10'000 && sizeof(TestType) != 4) continue;
                check_rooted_movements<TestType>(comm, seed, count);
                check_all_to_all<TestType>(comm, seed, count);
            }
        });
    }
}

TEST_CASE("swaps and gathers larger than all the sockets' buffers never stand still", "[operations]") {
    constexpr std::size_t kCount = (std::size_t{8} << 20) / sizeof(float) + 3;
    for (const int n : {2, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            check_rooted_movements<float>(comm, 3, kCount);
            check_all_to_all<float>(comm, 4, kCount);
            check_reduce<float>(comm, 5, kCount, ReduceOp::sum);
        });
    }
}

TEMPLATE_TEST_CASE("16-bit sums are rounded once, large ones too", "[operations]", Float16, BFloat16) {
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
                const auto text = expect_error(CollectiveErrorCode::invalid_argument, {}, [&] {
                                      comm.all_reduce(std::span(data), reduction);
                                  }).what();
                expect(std::string(text).find("is not defined for") != std::string::npos, text);
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
