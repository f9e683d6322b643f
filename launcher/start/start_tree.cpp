#include "launcher/start/start_tree.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/system/check.hpp"

namespace ddprun {

std::vector<StartBranch> branches_of(const std::vector<StartNode>& nodes, int fan_out) {
    check(fan_out >= 2, "a tree needs two branches");
    const std::size_t count = std::min(nodes.size(), static_cast<std::size_t>(fan_out));
    std::vector<StartBranch> branches;
    auto next = nodes.begin();
    for (std::size_t i = 0; i < count; ++i) {
        const auto left = static_cast<std::size_t>(nodes.end() - next);
        const std::size_t size = (left + count - i - 1) / (count - i);
        branches.emplace_back(next, next + static_cast<std::ptrdiff_t>(size));
        next += static_cast<std::ptrdiff_t>(size);
    }
    return branches;
}

std::vector<StartBranch> branches_of_starter(const std::vector<StartNode>& nodes, int fan_out) {
    std::vector<StartBranch> branches;
    StartBranch others;
    for (const StartNode& node : nodes) {
        if (node.rank == 0 || node.is_here) {
            branches.push_back({node});
        } else {
            others.push_back(node);
        }
    }
    std::vector<StartBranch> further = branches_of(others, fan_out);
    branches.insert(branches.end(), std::make_move_iterator(further.begin()),
                    std::make_move_iterator(further.end()));
    return branches;
}

StartPlan plan_of_branch(const StartPlan& whole, StartBranch branch) {
    StartPlan plan = whole;
    if (branch.front().rank != 0) plan.host_names.clear();
    plan.nodes = std::move(branch);
    return plan;
}

std::vector<std::string> agent_words(const StartPlan& plan, int port) {
    const StartNode& node = plan.nodes.front();
    std::vector<std::string> words = plan.options;
    words.push_back("--nnodes=" + plan.nnodes);
    words.push_back(fmt::format("--node-rank={}", node.rank));
    words.push_back("--master-addr=" + plan.master_addr);
    if (port != 0) words.push_back(fmt::format("--master-port={}", port));
    if (node.workers >= 0) words.push_back(fmt::format("--nproc-per-node={}", node.workers));
    words.emplace_back("--");
    words.insert(words.end(), plan.program.begin(), plan.program.end());
    return words;
}

}  // namespace ddprun
