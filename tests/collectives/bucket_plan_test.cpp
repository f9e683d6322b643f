#include "collectives/grad_buckets.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/catch.hpp"

using namespace ddprun;

TEST_CASE("buckets take parameters from the last to the first, the first bucket fewer", "[buckets]") {
    const std::vector<std::size_t> sizes{100, 30, 30, 50, 6, 5};
    const BucketPlan plan = plan_buckets(sizes, 10, 80);
    REQUIRE(plan.buckets.size() == 3);
    // 5 + 6 fill the first bucket; 50 + 30 the second; a parameter that is larger than a bucket is not cut.
    const std::vector<std::vector<std::size_t>> expected{{4, 6, 210, 11}, {2, 4, 130, 80}, {0, 2, 0, 130}};
    for (std::size_t i = 0; i < 3; ++i) {
        const auto& bucket = plan.buckets[i];
        REQUIRE(std::vector<std::size_t>{bucket.first, bucket.end, bucket.offset, bucket.size} ==
                expected[i]);
    }
    REQUIRE(plan.bucket_of == std::vector<std::size_t>{2, 2, 1, 1, 0, 0});
    REQUIRE(plan.offsets == std::vector<std::size_t>{0, 100, 130, 160, 210, 216, 221});
}

TEST_CASE("no parameters make no buckets, empty ones make no elements", "[buckets]") {
    REQUIRE(plan_buckets({}, 1, 1).buckets.empty());
    REQUIRE(plan_buckets({}, 1, 1).elements() == 0);
    const std::vector<std::size_t> empty(3, 0);
    const BucketPlan plan = plan_buckets(empty, 1, 1);
    REQUIRE(plan.buckets.size() == 1);
    REQUIRE(plan.buckets[0].end == 3);
}

TEST_CASE("buckets cover all parameters once, and only their last parameter goes over the limit",
          "[buckets]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::size_t> sizes(random() % 40);
        for (std::size_t& size : sizes) size = random() % (random() % 4 == 0 ? 1000 : 50);
        const std::size_t first = 1 + random() % 60;
        const std::size_t limit = 1 + random() % 300;
        const BucketPlan plan = plan_buckets(sizes, first, limit);
        std::size_t end = sizes.size();
        for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
            const auto& bucket = plan.buckets[b];
            REQUIRE(bucket.end == end);
            REQUIRE(bucket.first < bucket.end);
            REQUIRE(bucket.size == std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(bucket.first),
                                                   sizes.begin() + static_cast<std::ptrdiff_t>(bucket.end),
                                                   std::size_t{0}));
            REQUIRE(bucket.offset == plan.offsets[bucket.first]);
            const std::size_t most = b == 0 ? first : limit;
            REQUIRE(bucket.size - sizes[bucket.first] < most);
            REQUIRE((bucket.size >= most || bucket.first == 0));
            end = bucket.first;
        }
        REQUIRE(end == 0);
        REQUIRE(plan.elements() == std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
    }
}

TEST_CASE("buckets take their turns in one order, whatever becomes ready first", "[buckets]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const BucketPlan plan = plan_buckets(std::vector<std::size_t>(30, 10), 20, 50);
    BucketTurns turns(plan);
    for (int step = 0; step < 50; ++step) {
        std::vector<std::size_t> order(30);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        std::vector<std::size_t> taken;
        for (std::size_t i = 0; i < order.size(); ++i) {
            REQUIRE_FALSE(turns.all_taken());
            std::vector<std::size_t> missing(order.begin() + static_cast<std::ptrdiff_t>(i), order.end());
            std::sort(missing.begin(), missing.end());
            REQUIRE(turns.not_ready(30) == missing);
            REQUIRE(turns.mark_ready(order[i]));
            REQUIRE_FALSE(turns.mark_ready(order[i]));
            for (auto next = turns.take_next(); next < plan.buckets.size(); next = turns.take_next()) {
                const auto& bucket = plan.buckets[next];
                for (const std::size_t parameter : missing) {
                    const bool ready = parameter == order[i];
                    REQUIRE((ready || parameter < bucket.first || parameter >= bucket.end));
                }
                taken.push_back(next);
            }
        }
        REQUIRE(turns.all_taken());
        std::vector<std::size_t> all(plan.buckets.size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        REQUIRE(taken == all);
        REQUIRE(turns.not_ready(5).empty());
        turns.reset();
        REQUIRE(turns.not_ready(5).size() == 5);
    }
}
