#include "launcher/doctor/cluster_findings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "launcher/cluster/host_list.hpp"

namespace ddprun {
inline namespace launch {
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

const std::string& label_of(const std::vector<std::string>& labels, int node) {
    return labels.at(static_cast<std::size_t>(node));
}

struct ReachText {
    Reach reach;
    const char* text;
    const char* remedy;
};
constexpr std::array<ReachText, 4> kReachTexts{{
    {Reach::reached, "reached", ""},
    {Reach::refused, "refused",
     "let the firewall there pass TCP at all ports between the nodes, or see by --local-addr or --net that it is called at an address of its own"},
    {Reach::unreachable, "no way there",
     "see ip route get with that address; another network is named by --net, or by --local-addr on each node"},
    {Reach::silent, "no answer, as behind a firewall that drops it",
     "let the firewalls of both pass TCP at all ports between the nodes (nft list ruleset, iptables -S), or name another network by --net"},
}};

std::int64_t median(const std::vector<NodeRate>& rates, std::int64_t NodeRate::*value) {
    std::vector<std::int64_t> values;
    for (const NodeRate& rate : rates) values.push_back(rate.*value);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

constexpr const char* kSlowRemedy =
    "see ethtool for its speed, duplex and errors, its cable and its switch; a faster network is named by "
    "--net";

}  // namespace

Finding silent_node_finding(int rank, std::string_view what) {
    return problem_finding("node", std::string(what),
                           "see whether it hangs there: look for ddprun doctor in ps, and for D in its state",
                           fmt::format("with rank {}", rank));
}

Finding presence_finding(int expected, int there, const std::vector<std::string>& absent) {
    const std::string counted = fmt::format("{} of {} are there", there, expected);
    if (there == expected) return ok_finding("nodes", counted);
    const std::string others = absent.empty() ? "the others" : compressed_hosts(absent);
    return problem_finding(
        "nodes",
        fmt::format("{}; {} {} not come in time", counted, others, absent.size() == 1 ? "has" : "have"),
        "see what their ddprun says; each has to reach node 0 at --master-addr and --master-port");
}

std::vector<Finding> difference_findings(const std::vector<std::string>& labels,
                                         const std::vector<NodeSummary>& nodes) {
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
                                    const std::vector<NodeRate>& rates) {
    constexpr const char* kRemedy = "start chronyd or another NTP client there, and see chronyc tracking";
    std::vector<Finding> findings;
    std::int64_t most = 0;
    int compared = 0;
    for (const NodeRate& rate : rates) {
        if (!rate.clock_offset_us) continue;
        const std::int64_t offset = *rate.clock_offset_us;
        ++compared;
        most = std::max(most, std::abs(offset));
        const auto apart = std::chrono::microseconds(std::abs(offset));
        if (apart <= kClocksApart) continue;
        const std::string text = fmt::format("{} {} that of {}", seconds_text(offset),
                                             offset > 0 ? "ahead of" : "behind", labels.front());
        findings.push_back({"clock", label_of(labels, rate.node),
                            apart > kClocksFarApart ? FindingState::problem : FindingState::warning, text,
                            kRemedy});
    }
    if (findings.empty() && compared > 0)
        findings.push_back(ok_finding("clocks", fmt::format("of {} nodes within {} of that of {}", compared,
                                                            seconds_text(most), labels.front())));
    return findings;
}

std::vector<UnknownName> unknown_names(const std::vector<ListedNode>& peers,
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
                                   const std::vector<ReachReport>& reports) {
    // Why -> name -> on which nodes. Which names were not asked for in time is chance.
    std::map<std::string, std::map<std::string, std::set<std::size_t>>> nodes_by_name;
    for (std::size_t node = 0; node < reports.size(); ++node) {
        for (const UnknownName& one : reports[node].unknown)
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

std::vector<Finding> reach_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs) {
    // The callers that fail to reach a node are grouped by its address and by how they fail.
    std::map<std::tuple<int, Reach, std::string, std::string>, std::vector<std::string>> callers;
    for (const PairReach& pair : pairs) {
        if (pair.reach != Reach::reached)
            callers[{pair.to, pair.reach, pair.address, pair.error}].push_back(label_of(labels, pair.from));
    }
    std::vector<Finding> findings;
    for (const auto& [where, names] : callers) {
        const auto& [to, reach, address, error] = where;
        const auto& [known, text, remedy] = kReachTexts.at(static_cast<std::size_t>(reach));
        const bool is_nobody = names.size() + 1 == labels.size() && labels.size() >= kLeastCompared;
        const std::string who =
            is_nobody ? "none of the others can reach" : compressed_hosts(names) + " cannot reach";
        const std::string cause =
            error.empty() || reach == Reach::refused ? text : fmt::format("{} ({})", text, error);
        findings.push_back(problem_finding("reach", fmt::format("{} it at {}: {}", who, address, cause),
                                           remedy, label_of(labels, to)));
    }
    const std::size_t all = labels.size() * (labels.size() - 1);
    if (pairs.size() < all)
        findings.push_back(
            warning_finding("reach", fmt::format("{} of {} ways were not tried", all - pairs.size(), all),
                            "call ddprun doctor again when all nodes answer"));
    if (findings.empty() && all > 0)
        findings.push_back(
            ok_finding("reach", fmt::format("each of {} nodes reaches each other one", labels.size())));
    return findings;
}

std::vector<Finding> unmeasured_findings(const std::vector<std::string>& labels,
                                         const std::vector<ReachReport>& reports) {
    constexpr const char* kAgain =
        "see what is said of reach and of these nodes, then call ddprun doctor again";
    for (const auto& [pairs, unknown, rate, error, culprits] : reports) {
        if (error.empty()) continue;
        std::vector<std::string> about;
        for (const int node : culprits) about.push_back(label_of(labels, node));
        return {warning_finding("rates", "not all were measured: " + error, kAgain,
                                about.empty() ? "" : compressed_hosts(about))};
    }
    const bool is_measured =
        std::ranges::any_of(reports, [](const auto& one) { return one.rate.has_value(); });
    if (is_measured || labels.size() < 2) return {};
    return {warning_finding("rates", "not measured, since not all nodes reach each other", kAgain)};
}

std::vector<Finding> speed_findings(const std::vector<std::string>& labels,
                                    const std::vector<NodeRate>& rates) {
    if (rates.empty()) return {};
    const std::int64_t usual = median(rates, &NodeRate::mbit_s);
    std::vector<Finding> findings;
    for (const NodeRate& rate : rates) {
        if (rates.size() >= kLeastCompared && rate.mbit_s * kMuchSlower < usual)
            findings.push_back(warning_finding(
                "bandwidth", fmt::format("{} at most, median {}", rate_text(rate.mbit_s), rate_text(usual)),
                kSlowRemedy, label_of(labels, rate.node)));
    }
    const NodeRate& least = *std::ranges::min_element(rates, {}, &NodeRate::least_mbit_s);
    findings.push_back(ok_finding(
        "bandwidth",
        fmt::format("median {} each way at one time, least {} between {} and {}", rate_text(usual),
                    rate_text(least.least_mbit_s), label_of(labels, std::min(least.node, least.least_with)),
                    label_of(labels, std::max(least.node, least.least_with)))));
    return findings;
}

std::vector<Finding> latency_findings(const std::vector<std::string>& labels,
                                      const std::vector<NodeRate>& rates) {
    if (rates.empty()) return {};
    const std::int64_t usual = median(rates, &NodeRate::latency_us);
    std::vector<Finding> findings;
    for (const NodeRate& rate : rates) {
        if (rates.size() >= kLeastCompared && rate.latency_us > usual * kMuchLater &&
            rate.latency_us > kLateLatencyUs)
            findings.push_back(warning_finding(
                "latency",
                fmt::format("{} at least, median {}", time_text(rate.latency_us), time_text(usual)),
                "see where that node is, and what else it does", label_of(labels, rate.node)));
    }
    const NodeRate& most = *std::ranges::max_element(rates, {}, &NodeRate::latency_us);
    findings.push_back(
        ok_finding("latency", fmt::format("median {} there and back, most {} at {}", time_text(usual),
                                          time_text(most.latency_us), label_of(labels, most.node))));
    return findings;
}

std::vector<Finding> cluster_findings(const ClusterReport& report, const std::vector<ReachReport>& reports) {
    std::vector<std::string> hosts;
    for (const NodeSummary& node : report.nodes) hosts.push_back(node.report.host);
    const std::vector<std::string> labels = node_labels(hosts);
    std::vector<Finding> findings = difference_findings(labels, report.nodes);
    for (const std::vector<Finding>& more :
         {clock_findings(labels, report.rates), name_findings(labels, hosts, reports),
          reach_findings(labels, report.pairs), unmeasured_findings(labels, reports),
          latency_findings(labels, report.rates), speed_findings(labels, report.rates)})
        findings.insert(findings.end(), more.begin(), more.end());
    return findings;
}

}  // namespace launch
}  // namespace ddprun
