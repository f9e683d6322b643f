#include <fmt/core.h>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/cluster/host_list.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kHostsPrefix = "VC_";
constexpr std::string_view kHostsSuffix = "_HOSTS";

// VC_<TASK>_HOSTS: pods of one task.
std::vector<std::string> host_variables(const ClusterView& view) {
    std::vector<std::string> names;
    for (auto entry = view.environment.lower_bound(std::string(kHostsPrefix));
         entry != view.environment.end() && entry->first.starts_with(kHostsPrefix); ++entry) {
        const bool is_long = entry->first.size() > kHostsPrefix.size() + kHostsSuffix.size();
        if (is_long && entry->first.ends_with(kHostsSuffix) && !entry->second.empty())
            names.push_back(entry->first);
    }
    return names;
}

}  // namespace

// A master and its workers are two tasks, each of which counts from 0; who is which then says the PyTorch plug-in.
std::optional<FamilyFacts> read_volcano(const ClusterView& view) {
    const auto index = first_of(view, {"VC_TASK_INDEX", "VK_TASK_INDEX"});
    if (!index || first_of(view, {"MASTER_ADDR"})) return std::nullopt;
    FamilyFacts facts;
    const auto variables = host_variables(view);
    facts.ways_out[Fact::nnodes] =
        variables.empty()
            ? "there is no VC_…_HOSTS, so give --nnodes, --node-rank and --master-addr"
            : fmt::format("{} and {} each count from 0, so give --nnodes, --node-rank and --master-addr",
                          variables.front(), variables.back());
    if (variables.size() != 1) return facts;
    const auto hosts = expand_host_list(*text_of(view, variables.front()));
    if (const auto* wrong = std::get_if<std::string>(&hosts)) {
        facts.conflict = fmt::format("{}: {}", variables.front(), *wrong);
        return facts;
    }
    for (const std::string& name : std::get<std::vector<std::string>>(hosts))
        facts.hosts.push_back({name, 0});
    facts.hosts_source = variables.front();
    claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), variables.front());
    claim(facts, Fact::master_addr, facts.hosts.front().name, variables.front());
    if (const auto number = number_of(view, index->name, 0))
        claim(facts, Fact::node_rank, std::to_string(*number), index->name);
    const std::string& list = variables.front();
    const std::string count = list.substr(0, list.size() - kHostsSuffix.size()) + "_NUM";
    facts.conflict = count_conflict(count, number_of(view, count, 1), list, facts.hosts);
    const std::string& first = facts.hosts.front().name;
    claim(facts, Fact::job_id, "volcano-" + first.substr(0, first.find('.')), variables.front());
    return facts;
}

}  // namespace ddprun::inline launch
