#include "launcher/start/start_tree.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::vector<StartNode> nodes_up_to(int count) {
    std::vector<StartNode> nodes;
    for (int rank = 0; rank < count; ++rank)
        nodes.push_back({.rank = rank, .target = "n" + std::to_string(rank)});
    return nodes;
}

std::vector<std::vector<int>> ranks_of(const std::vector<StartBranch>& branches) {
    std::vector<std::vector<int>> ranks;
    for (const StartBranch& branch : branches) {
        ranks.emplace_back();
        for (const StartNode& node : branch) ranks.back().push_back(node.rank);
    }
    return ranks;
}

using Ranks = std::vector<std::vector<int>>;

// How deep the tree below these nodes is; each node is found once.
int depth_below(const std::vector<StartNode>& nodes, int fan_out, std::vector<int>& found) {
    int deepest = 0;
    const auto branches = branches_of(nodes, fan_out);
    CHECK(branches.size() <= static_cast<std::size_t>(fan_out));
    for (const StartBranch& branch : branches) {
        found.push_back(branch.front().rank);
        deepest = std::max(deepest, 1 + depth_below({branch.begin() + 1, branch.end()}, fan_out, found));
    }
    return deepest;
}

}  // namespace

TEST_CASE("nodes are spread over branches of nearly one size", "[start]") {
    CHECK(ranks_of(branches_of(nodes_up_to(3), 32)) == Ranks{{0}, {1}, {2}});
    CHECK(ranks_of(branches_of(nodes_up_to(7), 2)) == Ranks{{0, 1, 2, 3}, {4, 5, 6}});
    CHECK(branches_of({}, 2).empty());
}

TEST_CASE("node 0 and the starter's own machine stand alone", "[start]") {
    auto nodes = nodes_up_to(6);
    nodes[4].is_here = true;
    CHECK(ranks_of(branches_of_starter(nodes, 2)) == Ranks{{0}, {4}, {1, 2}, {3, 5}});
}

TEST_CASE("every node is in the tree once, and that is flat", "[start]") {
    const auto seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 200; ++i) {
        const int count = static_cast<int>(random() % 2000);
        const int fan_out = 2 + static_cast<int>(random() % 40);
        CAPTURE(count, fan_out);
        std::vector<int> found;
        const int depth = depth_below(nodes_up_to(count), fan_out, found);
        std::sort(found.begin(), found.end());
        std::vector<int> all;
        for (int rank = 0; rank < count; ++rank) all.push_back(rank);
        CHECK(found == all);
        // A full tree of one level less holds fewer.
        double below = 0, level = 1;
        for (int j = 1; j < depth; ++j) below += level *= fan_out;
        CHECK(below < count + 1);
    }
}

TEST_CASE("an agent's words are its node's, and then the program's", "[start]") {
    const StartPlan plan{.options = {"--nnodes=9", "-q", "--master-addr=a", "--master-port=7",
                                     "--nproc-per-node=3", "--nnodes-like=1"},
                         .program = {"train", "--", "-x"},
                         .nnodes = "2:3",
                         .master_addr = "fd00::1"};
    using Words = std::vector<std::string>;
    CHECK(agent_words(plan, {.rank = 2, .workers = 4}, 29500) ==
          Words{"-q", "--nnodes-like=1", "--nnodes=2:3", "--node-rank=2", "--master-addr=fd00::1",
                "--master-port=29500", "--nproc-per-node=4", "--", "train", "--", "-x"});
    CHECK(agent_words(plan, {.rank = 2}, 0) == Words{"-q", "--master-port=7", "--nproc-per-node=3",
                                                     "--nnodes-like=1", "--nnodes=2:3", "--node-rank=2",
                                                     "--master-addr=fd00::1", "--", "train", "--", "-x"});
}

}  // namespace ddprun
