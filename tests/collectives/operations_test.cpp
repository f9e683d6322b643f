// Every verb × type × operation × number of ranks against the straightforward reference. Ranks are threads.
#include <random>
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
                    if (count < 10'000) check_reduce_scatter<TestType>(comm, seed, count, op);
                }
            }
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
            comm.all_reduce(std::span(data), ReduceOp::sum);
            expect(data == std::vector<TestType>(count, TestType(1.0F + last_bit)), "rounded once");
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
