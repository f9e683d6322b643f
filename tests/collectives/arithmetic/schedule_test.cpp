#include <set>
#include <vector>

#include "collectives/arithmetic/schedule.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

constexpr int kLargestWorld = 17;

using Contributors = std::multiset<int>;

// Plays a schedule on all ranks in lockstep with sets of contributing ranks in place of numbers. Returns
// holdings[rank][chunk].
template <class Make>
std::vector<std::vector<Contributors>> play(int world_size, Make make, bool starts_with_all_chunks) {
    std::vector<std::vector<Contributors>> holdings(world_size, std::vector<Contributors>(world_size));
    for (int rank = 0; rank < world_size; ++rank) {
        for (int chunk = 0; chunk < world_size; ++chunk) {
            if (starts_with_all_chunks || chunk == rank) holdings[rank][chunk] = {rank};
        }
    }
    for (int step = 0; step < make(0, world_size).steps(); ++step) {
        const auto before = holdings;
        for (int rank = 0; rank < world_size; ++rank) {
            const int left = (rank + world_size - 1) % world_size;
            const RingSchedule schedule = make(rank, world_size);
            const int chunk = schedule.receives(step);
            REQUIRE(chunk == make(left, world_size).sends(step));
            if (step > 0) REQUIRE(schedule.sends(step) == schedule.receives(step - 1));
            const Contributors& received = before[left][chunk];
            if (schedule.reduces(step)) {
                holdings[rank][chunk].insert(received.begin(), received.end());
            } else {
                holdings[rank][chunk] = received;
            }
            REQUIRE(schedule.completes(step) == (schedule.reduces(step) && !schedule.reduces(step + 1)));
        }
    }
    return holdings;
}

Contributors everybody(int world_size) {
    Contributors all;
    for (int rank = 0; rank < world_size; ++rank) all.insert(rank);
    return all;
}

}  // namespace

TEST_CASE("chunks cover a buffer in order, without gaps, in nearly equal sizes", "[schedule]") {
    for (int parts = 1; parts <= kLargestWorld; ++parts) {
        for (const std::size_t count : {0, 1, 2, 3, 7, 16, 17, 18, 1009, 4096}) {
            std::size_t next = 0;
            for (int i = 0; i < parts; ++i) {
                const Range range = chunk_range(count, parts, i);
                REQUIRE(range.begin == next);
                REQUIRE(range.size >= count / parts);
                REQUIRE(range.size <= count / parts + 1);
                next += range.size;
            }
            REQUIRE(next == count);
        }
    }
}

TEST_CASE("the all-reduce ring leaves every rank with every rank's part exactly once", "[schedule]") {
    for (int n = 2; n <= kLargestWorld; ++n) {
        const auto holdings = play(n, RingSchedule::all_reduce, true);
        for (int rank = 0; rank < n; ++rank) {
            for (int chunk = 0; chunk < n; ++chunk) REQUIRE(holdings[rank][chunk] == everybody(n));
        }
        REQUIRE(RingSchedule::all_reduce(0, n).steps() == 2 * (n - 1));
    }
}

TEST_CASE("the reduce-scatter ring leaves rank r with chunk r complete", "[schedule]") {
    for (int n = 2; n <= kLargestWorld; ++n) {
        const auto holdings = play(n, RingSchedule::reduce_scatter, true);
        for (int rank = 0; rank < n; ++rank) {
            REQUIRE(holdings[rank][rank] == everybody(n));
            const RingSchedule schedule = RingSchedule::reduce_scatter(rank, n);
            REQUIRE(schedule.receives(schedule.steps() - 1) == rank);
        }
    }
}

TEST_CASE("the all-gather ring brings every rank every other's chunk", "[schedule]") {
    for (int n = 2; n <= kLargestWorld; ++n) {
        const auto holdings = play(n, RingSchedule::all_gather, false);
        for (int rank = 0; rank < n; ++rank) {
            for (int chunk = 0; chunk < n; ++chunk) REQUIRE(holdings[rank][chunk] == Contributors{chunk});
        }
    }
}

TEST_CASE("dissemination brings every rank all blocks in the order rank, rank + 1, ...", "[schedule]") {
    for (int n = 2; n <= kLargestWorld; ++n) {
        std::vector<std::vector<int>> held(n);
        for (int rank = 0; rank < n; ++rank) held[rank] = {rank};
        for (int i = 0; i < dissemination_rounds(n); ++i) {
            const auto before = held;
            for (int rank = 0; rank < n; ++rank) {
                const DisseminationRound round = dissemination_round(rank, n, i);
                const DisseminationRound theirs = dissemination_round(round.from, n, i);
                REQUIRE(theirs.to == rank);
                REQUIRE(theirs.blocks == round.blocks);
                REQUIRE(round.held == static_cast<int>(before[rank].size()));
                const auto& source = before[round.from];
                held[rank].insert(held[rank].end(), source.begin(), source.begin() + round.blocks);
            }
        }
        for (int rank = 0; rank < n; ++rank) {
            REQUIRE(held[rank].size() == static_cast<std::size_t>(n));
            for (int i = 0; i < n; ++i) REQUIRE(held[rank][i] == (rank + i) % n);
        }
    }
}

TEST_CASE("the binomial tree reaches every rank once, parent before child", "[schedule]") {
    for (int n = 1; n <= kLargestWorld; ++n) {
        for (int root = 0; root < n; ++root) {
            std::vector<int> reached{root};
            REQUIRE(binomial_tree(root, n, root).parent == -1);
            for (std::size_t next = 0; next < reached.size(); ++next) {
                for (const int child : binomial_tree(reached[next], n, root).children) {
                    REQUIRE(binomial_tree(child, n, root).parent == reached[next]);
                    reached.push_back(child);
                }
            }
            REQUIRE(std::set<int>(reached.begin(), reached.end()).size() == static_cast<std::size_t>(n));
            REQUIRE(reached.size() == static_cast<std::size_t>(n));
        }
    }
}

TEST_CASE("every two ranks meet exactly once, and both at the same step", "[schedule]") {
    for (int n = 1; n <= 17; ++n) {
        for (int rank = 0; rank < n; ++rank) {
            std::vector<int> met(static_cast<std::size_t>(n));
            for (int step = 0; step < exchange_steps(n); ++step) {
                const int partner = exchange_partner(rank, n, step);
                REQUIRE(partner >= 0);
                REQUIRE(partner < n);
                REQUIRE(exchange_partner(partner, n, step) == rank);
                ++met[static_cast<std::size_t>(partner)];
            }
            REQUIRE(met == std::vector<int>(static_cast<std::size_t>(n), 1));
        }
    }
}
