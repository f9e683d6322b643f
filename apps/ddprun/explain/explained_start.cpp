#include "apps/ddprun/explain/explained_start.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "apps/ddprun/explain/shown_words.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"

namespace ddprun::inline app {
namespace {

ExplainedAgent explained_agent(const StartPlan& plan, const StartNode& node) {
    ExplainedAgent agent{.node = node.rank,
                         .host = node.target,
                         .is_here = node.is_here,
                         .workers = {},
                         .slots = {},
                         .command = {"ddprun"}};
    if (node.workers != kUnsaidSlots)
        agent.workers = node.workers;
    else if (node.slots > 0)
        agent.slots = node.slots;
    for (std::string& word : shown_launcher_words(agent_words(plan, node, plan.master_port)))
        agent.command.push_back(std::move(word));
    return agent;
}

}  // namespace

ExplainedStart explained_start(const CommandLine& line, const StarterOptions& options) {
    ExplainedStart start{.decided = start_line(line, options),
                         .shell = shell_words(options.plan.rsh, {.target = "HOST", .line = "LINE"}),
                         .agents = {}};
    for (const StartNode& node : options.plan.nodes)
        start.agents.push_back(explained_agent(options.plan, node));
    return start;
}

void forget_one_node(ClusterTable& table) {
    for (const Fact fact : {Fact::nnodes, Fact::node_rank}) {
        const Claim* claim = chosen(table, fact);
        if (claim != nullptr && claim->belief == Belief::assumed) table.facts.erase(fact);
    }
    table.situation = Situation::agent_per_node;
}

void tell_hosts(ClusterTable& table, const CommandLine& line, const StarterOptions& options) {
    const char* flag = line.start.hosts.empty() ? "--hostfile" : "--hosts";
    const OptionOrigin& origin = line.origins.at(flag);
    Claim claim{"", origin.name.empty() ? flag : origin.name, belief_of(origin)};
    const auto tell = [&](Fact fact, std::string value) {
        if (chosen(table, fact) != nullptr) return;  // The user has said it, too.
        claim.value = std::move(value);
        table.facts[fact].chosen = claim;
    };
    tell(Fact::nnodes, std::to_string(options.plan.nodes.size()));
    tell(Fact::master_addr, options.plan.master_addr);
    for (const StartNode& node : options.plan.nodes)
        table.hosts.push_back({.name = host_of(node.target), .slots = std::max(node.workers, 0)});
    table.hosts_source = claim.source;
    table.started_by = shell_name(options.plan.rsh);
}

std::string start_text(const ExplainedStart& start) {
    std::string text;
    for (const ExplainedAgent& agent : start.agents) {
        std::string command;
        for (const std::string& word : agent.command) command += " " + word;
        text += fmt::format(
            "node {} on {}{}{}:{}\n", agent.node, harmless_line(agent.host), agent.is_here ? " (here)" : "",
            agent.slots ? fmt::format(", a worker for each GPU, or {} without", *agent.slots) : "",
            harmless_line(command, kMaxHostListText));
    }
    return text;
}

}  // namespace ddprun::inline app
