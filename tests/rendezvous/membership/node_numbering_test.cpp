#include "rendezvous/membership/seating.hpp"

#include <algorithm>
#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("host names in their natural order") {
    const std::vector<std::string> ordered = {"",
                                              "a",
                                              "gpu-a1",
                                              "gpu-a2b",
                                              "gpu-a10b",
                                              "node1",
                                              "node01",
                                              "node2",
                                              "node2-ib",
                                              "node10",
                                              "node010a",
                                              "node100",
                                              "node10000000000000000000000",
                                              "node10000000000000000000001",
                                              "nodes"};
    // node1 and node01 are one number: the text decides, and 0 is before 1.
    std::vector<std::string> names = ordered;
    std::swap(names[5], names[6]);
    for (std::size_t i = 0; i < names.size(); ++i) {
        for (std::size_t j = 0; j < names.size(); ++j) {
            INFO(names[i] << " and " << names[j]);
            CHECK(comes_before(names[i], names[j]) == (i < j));
        }
    }
}

TEST_CASE("ranks go by what nodes say of their order, and who says nothing comes behind") {
    using Order = std::vector<std::size_t>;
    CHECK(order_ranks({}).empty());
    CHECK(order_ranks({"", "", ""}) == Order{0, 1, 2});
    CHECK(order_ranks({"s10.b", "", "s2.a", "s10.a", "s2.a"}) == Order{2, 4, 3, 0, 1});
}

TEST_CASE("nodes are numbered: own numbers first, then the host, then by name, then as they came") {
    using Numbers = std::vector<int>;
    CHECK(number_nodes({}).empty());
    CHECK(number_nodes({{{}, "b", false}, {{}, "a", false}, {{}, "c", true}}) == Numbers{2, 1, 0});
    CHECK(number_nodes({{{}, "node10", false}, {{}, "node9", false}}) == Numbers{1, 0});
    CHECK(number_nodes({{{}, "a", false}, {{}, "a", false}, {{}, "a", true}}) == Numbers{1, 2, 0});
    CHECK(number_nodes({{{}, "c", false}, {0, "b", false}, {{}, "a", true}}) == Numbers{2, 0, 1});
    CHECK(number_nodes({{2, "a", true}, {{}, "c", false}, {{}, "b", false}}) == Numbers{2, 1, 0});
}

TEST_CASE("a list of hosts is stronger than their names, and weaker than the host and own numbers") {
    using Numbers = std::vector<int>;
    CHECK(number_nodes({{{}, "a", false, 2}, {{}, "b", false, 0}, {{}, "c", false, 1}}) == Numbers{2, 0, 1});
    CHECK(number_nodes({{{}, "a", false, 0}, {{}, "b", true, 2}, {{}, "c", false, 1}}) == Numbers{1, 0, 2});
    CHECK(number_nodes({{{}, "a", false, 7}, {{}, "b", false, 3}, {0, "c", false, 9}}) == Numbers{2, 1, 0});
    // Those who are in no list come behind it, by their names.
    CHECK(number_nodes({{{}, "b", false}, {{}, "a", false}, {{}, "z", false, 5}}) == Numbers{2, 1, 0});
    CHECK(number_nodes({{{}, "a", true}, {{}, "c", false, 1}, {{}, "b", false}, {{}, "d", false, 0}}) ==
          Numbers{0, 2, 3, 1});
    // Several agents of one host, and lists that disagree.
    CHECK(
        number_nodes({{{}, "c", false, 0}, {{}, "b", false, 1}, {{}, "a", false, 0}, {{}, "c", false, 0}}) ==
        Numbers{1, 3, 0, 2});
}

TEST_CASE("numbers are a permutation that respects what was given, whatever comes in whichever order") {
    for (unsigned seed = 1; seed <= 500; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        const auto pick = [&](int low, int high) {
            return std::uniform_int_distribution<int>(low, high)(random);
        };
        const int count = pick(1, 30);
        std::vector<int> own(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) own[static_cast<std::size_t>(i)] = i;
        std::shuffle(own.begin(), own.end(), random);
        std::vector<NodeClaim> nodes;
        for (int i = 0; i < count; ++i) {
            NodeClaim claim{{}, "node" + std::to_string(pick(0, 12)), i == 0};
            if (pick(0, 1) == 0) claim.listed = pick(-1, 12);
            if (pick(0, 2) == 0) claim.number = own[static_cast<std::size_t>(i)];
            nodes.push_back(claim);
        }
        std::vector<int> numbers = number_nodes(nodes);
        REQUIRE(numbers.size() == nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (nodes[i].number) CHECK(numbers[i] == *nodes[i].number);
        }
        std::sort(numbers.begin(), numbers.end());
        for (int i = 0; i < count; ++i) CHECK(numbers[static_cast<std::size_t>(i)] == i);
    }
}

}  // namespace ddprun
