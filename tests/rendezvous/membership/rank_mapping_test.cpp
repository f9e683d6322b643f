#include "rendezvous/membership/seating.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("ranks are running sums of the nodes' worker counts") {
    CHECK(map_ranks({{1, "default"}}) == std::vector<NodeRanks>{{0, 1, 0, 1}});
    CHECK(map_ranks({{2, "default"}, {1, "default"}}) == std::vector<NodeRanks>{{0, 3, 0, 3}, {2, 3, 2, 3}});
    CHECK(map_ranks({}).empty());
}

TEST_CASE("role ranks are running sums among the nodes of the same role") {
    // The example of torchrun's own tests.
    auto ranks = map_ranks({{4, "ps"}, {1, "tr"}, {2, "tr"}, {3, "tr"}, {5, "ps"}});
    CHECK(ranks ==
          std::vector<NodeRanks>{{0, 15, 0, 9}, {4, 15, 0, 6}, {5, 15, 1, 6}, {7, 15, 3, 6}, {10, 15, 4, 9}});
}

}  // namespace ddprun
