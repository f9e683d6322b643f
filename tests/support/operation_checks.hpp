// Checks of one verb each, against the straightforward reference; for communicators of any kind. All ranks
// call them with the same arguments.
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/thread_ranks.hpp"

namespace ddprun {

inline constexpr ReduceOp kAllOps[] = {ReduceOp::sum,        ReduceOp::prod, ReduceOp::min,
                                       ReduceOp::max,        ReduceOp::avg,  ReduceOp::bxor,
                                       ReduceOp::premul_sum, ReduceOp::band, ReduceOp::bor};

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
inline Reduction reduction_on(int rank, ReduceOp op) {
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

inline std::string at(const char* what, std::size_t count, ReduceOp op, const Communicator& comm) {
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

}  // namespace ddprun
