#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/cluster_findings.hpp"

namespace ddprun::inline launch {
namespace {

constexpr const char* kNotInTime = "who other nodes are was not answered in time";

struct ComparedFact {
    const char* topic;
    FindingState state;  // where nodes differ in it
    const char* remedy;
};
constexpr std::array<ComparedFact, 8> kComparedFacts{{
    {"ddprun", FindingState::warning, "install one version on all of them"},
    {"glibc", FindingState::warning, "build programs on a node that has the oldest one"},
    {"machine", FindingState::warning,
     "programs have to be built for each; --role and --program start several"},
    {"gpus", FindingState::warning, "say --nproc-per-node on each node, or leave out those that lack some"},
    {"driver", FindingState::warning, "install one version of NVIDIA's driver on all of them"},
    {"python", FindingState::warning,
     "activate the same environment on all of them, or name it by PYTHON_EXEC"},
    {"pytorch", FindingState::warning, "install one version in the environment of all of them"},
    // Only told.
    {"kernel", FindingState::ok, ""},
}};

// "2.6.0 on gpu[01-02], none on gpu03": what most have first.
std::string values_text(const std::map<std::string, std::vector<std::string>>& hosts_by_value) {
    std::vector<std::pair<std::string, std::vector<std::string>>> values(hosts_by_value.begin(),
                                                                         hosts_by_value.end());
    std::stable_sort(values.begin(), values.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    std::string text;
    for (const auto& [value, hosts] : values)
        text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", value.empty() ? "none" : value,
                            compressed_hosts(hosts));
    return text;
}

std::string seconds_text(std::int64_t us) {
    const double seconds = std::abs(static_cast<double>(us)) / 1e6;
    return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

}  // namespace

std::vector<Finding> difference_findings(const std::vector<std::string>& labels,
                                         const std::vector<NodeWord>& nodes) {
    std::vector<Finding> findings;
    std::string alike;
    for (const auto& [topic, state, remedy] : kComparedFacts) {
        std::map<std::string, std::vector<std::string>> hosts_by_value;
        for (std::size_t node = 0; node < nodes.size(); ++node) {
            for (const NodeFact& fact : nodes[node].facts) {
                if (fact.topic == topic) hosts_by_value[fact.value].push_back(labels.at(node));
            }
        }
        if (hosts_by_value.size() > 1)
            findings.push_back({"nodes_differ", topic, state, values_text(hosts_by_value), remedy});
        else if (hosts_by_value.size() == 1)
            alike +=
                fmt::format("{}{} {}", alike.empty() ? "" : ", ", topic,
                            hosts_by_value.begin()->first.empty() ? "none" : hosts_by_value.begin()->first);
    }
    if (!alike.empty()) findings.insert(findings.begin(), ok_finding("nodes_alike", alike));
    return findings;
}

std::vector<Finding> clock_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs) {
    constexpr const char* kRemedy = "start chronyd or another NTP client there, and see chronyc tracking";
    std::map<int, std::int64_t> offsets;
    for (const PairReach& pair : pairs) {
        if (pair.clock_offset_us && pair.to == 0) offsets.emplace(pair.from, -*pair.clock_offset_us);
        if (pair.clock_offset_us && pair.from == 0) offsets[pair.to] = *pair.clock_offset_us;
    }
    std::vector<Finding> findings;
    std::int64_t most = 0;
    for (const auto& [node, offset] : offsets) {
        most = std::max(most, std::abs(offset));
        const auto apart = std::chrono::microseconds(std::abs(offset));
        if (apart <= kClocksApart) continue;
        const std::string text = fmt::format("{} {} that of {}", seconds_text(offset),
                                             offset > 0 ? "ahead of" : "behind", labels.front());
        findings.push_back({"clock", labels.at(static_cast<std::size_t>(node)),
                            apart > kClocksFarApart ? FindingState::problem : FindingState::warning, text,
                            kRemedy});
    }
    if (findings.empty() && !offsets.empty())
        findings.push_back(
            ok_finding("clocks", fmt::format("of {} nodes within {} of that of {}", offsets.size(),
                                             seconds_text(most), labels.front())));
    return findings;
}

std::vector<UnknownName> unknown_names(const std::vector<MeetingNode>& peers,
                                       const std::vector<NameFacts>& names) {
    std::vector<UnknownName> unknown;
    for (std::size_t i = 0; i < std::min(peers.size(), names.size()); ++i) {
        const NameFacts& name = names[i];
        const bool leads_back =
            !is_loopback_address(peers[i].address) &&
            std::all_of(name.addresses.begin(), name.addresses.end(), is_loopback_address);
        if (name.end == AnswerEnd::hangs)
            unknown.push_back({peers[i].host, kNotInTime});
        else if (name.addresses.empty())
            unknown.push_back({peers[i].host, "stands for no address: " + name.why});
        else if (leads_back)
            unknown.push_back(
                {peers[i].host, fmt::format("stands for {}, that node itself", name.addresses.front())});
    }
    return unknown;
}

std::vector<Finding> name_findings(const std::vector<std::string>& labels,
                                   const std::vector<std::string>& hosts,
                                   const std::vector<std::vector<UnknownName>>& unknown) {
    // Why -> name -> on which nodes. Of those that were not asked for in time it is chance which they are.
    std::map<std::string, std::map<std::string, std::set<std::size_t>>> nodes_by_name;
    for (std::size_t node = 0; node < unknown.size(); ++node) {
        for (const UnknownName& one : unknown[node])
            nodes_by_name[one.why][one.why == kNotInTime ? "" : one.host].insert(node);
    }
    std::vector<Finding> findings;
    for (auto& [why, names] : nodes_by_name) {
        // No node asks for its own name, which makes no difference.
        for (std::size_t node = 0; node < hosts.size(); ++node) {
            if (const auto own = names.find(hosts[node]); own != names.end()) own->second.insert(node);
        }
        std::map<std::set<std::size_t>, std::vector<std::string>> names_by_nodes;
        for (const auto& [name, nodes] : names) names_by_nodes[nodes].push_back(name);
        for (const auto& [nodes, alike] : names_by_nodes) {
            std::vector<std::string> where;
            for (const std::size_t node : nodes) where.push_back(labels.at(node));
            const bool hangs = why == kNotInTime;
            findings.push_back(warning_finding(
                "names", fmt::format("on {}: {}", compressed_hosts(where), why),
                hangs ? "correct the name servers in /etc/resolv.conf there"
                      : "add it to the name service or to /etc/hosts there, or name nodes by their addresses",
                hangs ? "" : compressed_hosts(alike)));
        }
    }
    return findings;
}

}  // namespace ddprun::inline launch
