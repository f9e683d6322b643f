#include "apps/ddprun/explain/explained_start.hpp"

#include <fmt/core.h>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"

namespace ddprun {
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
    for (std::string& word : agent_words(plan, node, plan.master_port))
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

}  // namespace ddprun
