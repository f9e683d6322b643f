#include "launcher/cluster/cluster_lines.hpp"

#include <fmt/core.h>

#include <array>
#include <cstdint>

#include "launcher/cluster/readers.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxHostsShown = 8;
constexpr std::size_t kMaxValueShown = 120;

constexpr std::array<std::string_view, kFacts> kFactNames = {
    "nodes", "node rank", "master address", "master port", "workers", "own name", "job id", "deadline"};

std::string shown(const std::string& text) { return harmless_line(text, kMaxValueShown); }

std::string hosts_text(const std::vector<ListedHost>& hosts) {
    std::string text;
    for (std::size_t i = 0; i < hosts.size() && i < kMaxHostsShown; ++i) {
        text += fmt::format("{}{}", i == 0 ? "" : ",", shown(hosts[i].name));
        if (hosts[i].slots > 0) text += fmt::format(":{}", hosts[i].slots);
    }
    return hosts.size() <= kMaxHostsShown ? text : fmt::format("{},… ({} in all)", text, hosts.size());
}

std::string claim_text(const Claim& claim) {
    return fmt::format("{} by {} ({})", shown(claim.value), shown(claim.source), belief_text(claim.belief));
}

// "2 nodes by SLURM_STEP_NUM_NODES".
std::string source_text(const ClusterTable& table, Fact fact) {
    const Claim* claim = chosen(table, fact);
    return claim != nullptr ? " by " + claim->source : "";
}

}  // namespace

std::string_view fact_name(Fact fact) { return kFactNames.at(static_cast<std::size_t>(fact)); }

std::string_view belief_text(Belief belief) {
    switch (belief) {
        case Belief::command_line: return "the command line";
        case Belief::own_variable: return "an option's variable";
        case Belief::torchrun_variable: return "torchrun's variable";
        case Belief::config_file: return "the configuration file";
        case Belief::task_launcher: return "a process launcher";
        case Belief::platform: return "a platform";
        case Belief::bare: return "bare variables";
        case Belief::allocation: return "an allocation";
        case Belief::assumed: break;
    }
    return "assumed";
}

std::string_view situation_text(Situation situation) {
    switch (situation) {
        case Situation::agent_per_node: return "one process on each node";
        case Situation::process_per_gpu: return "several processes on a node";
        case Situation::allocation: return "one process, the rest of the allocation is idle";
        case Situation::alone: break;
    }
    return "one node";
}

std::vector<std::string> cluster_lines(const ClusterTable& table) {
    std::vector<std::string> lines;
    lines.push_back(fmt::format("situation: {}{}", situation_text(table.situation),
                                table.family.empty() ? "" : fmt::format(" ({})", table.family)));
    for (const auto& [fact, derived] : table.facts) {
        std::string line = fmt::format("{}: {}", fact_name(fact),
                                       derived.chosen ? claim_text(*derived.chosen) : "not known");
        for (const Claim& rival : derived.rivals) line += "; not " + claim_text(rival);
        lines.push_back(std::move(line));
    }
    if (!table.hosts.empty())
        lines.push_back(fmt::format("hosts: {} by {}", hosts_text(table.hosts), table.hosts_source));
    if (!table.started_by.empty())
        lines.push_back(fmt::format("agents: started from here, by {}", table.started_by));
    if (!table.refusal.empty()) lines.push_back("refused: " + table.refusal);
    return lines;
}

std::string derived_line(const ClusterTable& table, int port) {
    const Claim* place = chosen(table, Fact::master_addr);
    const Claim* nodes = chosen(table, Fact::nnodes);
    const Claim* number = chosen(table, Fact::node_rank);
    std::string line = fmt::format("{} nodes{}", nodes != nullptr ? nodes->value : "several",
                                   source_text(table, Fact::nnodes));
    if (number != nullptr)
        line += fmt::format(", this is node {}{}", number->value, source_text(table, Fact::node_rank));
    if (place != nullptr)
        line += fmt::format(", they meet at {}{}",
                            to_string(Endpoint{place->value, static_cast<std::uint16_t>(port)}),
                            source_text(table, Fact::master_addr));
    return harmless_line(line);
}

std::string rivals_text(const ClusterTable& table, Fact fact) {
    const auto derived = table.facts.find(fact);
    if (derived == table.facts.end() || derived->second.rivals.empty()) return "";
    std::string text;
    for (const Claim& rival : derived->second.rivals)
        text += fmt::format("{}{} says {}", text.empty() ? " (" : ", ", rival.source, shown(rival.value));
    return text + ")";
}

}  // namespace launch
}  // namespace ddprun
