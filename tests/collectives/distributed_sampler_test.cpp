#include "collectives/distributed_sampler.hpp"

#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Indices = std::vector<std::size_t>;

std::vector<Indices> of_all_ranks(std::size_t size, int replicas, DistributedSamplerOptions options,
                                  std::uint64_t epoch = 0) {
    std::vector<Indices> all;
    for (int rank = 0; rank < replicas; ++rank) {
        DistributedSampler sampler(size, replicas, rank, options);
        sampler.set_epoch(epoch);
        all.push_back(sampler.indices());
    }
    return all;
}

// The order the ranks' lists were dealt from: rank 0's first, rank 1's first, …, rank 0's second, ….
Indices dealt_order(const std::vector<Indices>& all) {
    Indices order;
    for (std::size_t j = 0; j < all.front().size(); ++j) {
        for (const Indices& mine : all) order.push_back(mine.at(j));
    }
    return order;
}

// What the constructor's exception says; empty if it throws none.
std::string refusal(std::size_t size, int replicas, int rank) {
    try {
        DistributedSampler sampler(size, replicas, rank);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return {};
}

TEST_CASE("without shuffle the indices are dealt out in turn", "[sampler]") {
    struct Row {
        std::size_t size;
        int replicas;
        bool drop_last;
        std::vector<Indices> expected;
    };
    const std::vector<Row> rows = {
        {0, 1, false, {{}}},
        {0, 3, false, {{}, {}, {}}},
        {1, 1, false, {{0}}},
        {1, 3, false, {{0}, {0}, {0}}},
        {2, 5, false, {{0}, {1}, {0}, {1}, {0}}},
        {2, 5, true, {{}, {}, {}, {}, {}}},
        {8, 4, false, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
        {8, 4, true, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
        {10, 4, false, {{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}},
        {10, 4, true, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.size, row.replicas, row.drop_last);
        CHECK(of_all_ranks(row.size, row.replicas, {.shuffle = false, .drop_last = row.drop_last}) ==
              row.expected);
    }
}

TEST_CASE("the shuffled order is PyTorch's", "[sampler]") {
    struct Row {
        std::size_t size;
        std::uint64_t seed;
        std::uint64_t epoch;
        Indices expected;
    };
    // Printed by torch.randperm(size, generator=torch.Generator().manual_seed(seed + epoch)), PyTorch 1.13.
    const std::vector<Row> rows = {
        {1, 0, 0, {0}},
        {2, 0, 0, {0, 1}},
        {5, 0, 0, {4, 0, 1, 3, 2}},
        {10, 5, 0, {1, 4, 9, 6, 3, 5, 0, 2, 8, 7}},
        {10, 2, 3, {1, 4, 9, 6, 3, 5, 0, 2, 8, 7}},
        {12, 4294967303, 0, {3, 4, 0, 5, 7, 9, 11, 6, 8, 1, 10, 2}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.size, row.seed, row.epoch);
        CHECK(of_all_ranks(row.size, 1, {.seed = row.seed}, row.epoch).front() == row.expected);
    }
}

TEST_CASE("every sample is covered and every rank gets as many", "[sampler]") {
    const std::uint32_t test_seed = GENERATE(1u, 2u, 3u);
    CAPTURE(test_seed);
    std::mt19937 random(test_seed);
    for (int round = 0; round < 100; ++round) {
        const std::size_t size = random() % 400;
        const int replicas = 1 + static_cast<int>(random() % 12);
        const std::uint64_t epoch = random() % 5;
        DistributedSamplerOptions options{
            .shuffle = random() % 2 == 0, .seed = random(), .drop_last = random() % 2 == 0};
        CAPTURE(round, size, replicas, epoch, options.shuffle, options.seed, options.drop_last);

        const DistributedSampler any(size, replicas, 0, options);
        const std::vector<Indices> all = of_all_ranks(size, replicas, options, epoch);
        std::map<std::size_t, int> seen;
        for (const Indices& mine : all) {
            REQUIRE(mine.size() == any.num_samples());
            for (const std::size_t index : mine) ++seen[index];
        }
        REQUIRE(any.total_size() == any.num_samples() * all.size());
        REQUIRE(any.size() == size);
        if (!seen.empty()) REQUIRE(seen.rbegin()->first < size);

        if (options.drop_last) {
            REQUIRE(any.total_size() <= size);
            REQUIRE(size - any.total_size() < all.size());
            REQUIRE(seen.size() == any.total_size());
        } else {
            REQUIRE(any.total_size() >= size);
            REQUIRE(any.total_size() - size < all.size());
            REQUIRE(seen.size() == size);
            const Indices order = dealt_order(all);
            for (std::size_t place = size; place < order.size(); ++place) {
                REQUIRE(order[place] == order[place % size]);
            }
        }
    }
}

TEST_CASE("the order depends on seed plus epoch only, and not on the number of replicas", "[sampler]") {
    const Indices alone = of_all_ranks(120, 1, {.seed = 5}, 2).front();
    CHECK(dealt_order(of_all_ranks(120, 4, {.seed = 5}, 2)) == alone);
    CHECK(of_all_ranks(120, 1, {.seed = 7}, 0).front() == alone);
    CHECK(of_all_ranks(120, 1, {.seed = 5}, 3).front() != alone);

    DistributedSampler sampler(120, 1, 0, {.seed = 5});
    CHECK(sampler.indices() == of_all_ranks(120, 1, {.seed = 5}, 0).front());
    CHECK(sampler.indices() == sampler.indices());
}

TEST_CASE("impossible samplers are refused", "[sampler]") {
    CHECK(refusal(10, 0, 0) == "DistributedSampler: num_replicas is 0, must be at least 1");
    CHECK(refusal(10, -2, 0) == "DistributedSampler: num_replicas is -2, must be at least 1");
    CHECK(refusal(10, 4, 4) == "DistributedSampler: rank is 4, must be in 0..3");
    CHECK(refusal(10, 4, -1) == "DistributedSampler: rank is -1, must be in 0..3");
    CHECK(refusal(10, 4, 3).empty());
    constexpr std::size_t kLimit = DistributedSampler::kShuffleSizeLimit;
    CHECK_THROWS_AS(DistributedSampler(kLimit, 1, 0), std::invalid_argument);
    CHECK_NOTHROW(DistributedSampler(kLimit - 1, 1, 0));
    CHECK_NOTHROW(DistributedSampler(kLimit, 1, 0, {.shuffle = false}));
}

}  // namespace
}  // namespace ddprun
