#include "launcher/doctor/cluster_findings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "launcher/cluster/host_list.hpp"

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

namespace {

const std::string& label_of(const std::vector<std::string>& labels, int node) {
    return labels.at(static_cast<std::size_t>(node));
}

std::int64_t median(std::vector<std::int64_t> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::string rate_text(std::int64_t mbit_s) {
    return mbit_s < 1000 ? fmt::format("{} Mbit/s", mbit_s)
                         : fmt::format("{:.1f} Gbit/s", static_cast<double>(mbit_s) / 1000);
}

std::string time_text(std::int64_t us) {
    return us < 1000 ? fmt::format("{} us", us) : fmt::format("{:.1f} ms", static_cast<double>(us) / 1000);
}

struct ReachText {
    Reach reach;
    const char* text;
    const char* remedy;
};
constexpr std::array<ReachText, 5> kReachTexts{{
    {Reach::reached, "reached", ""},
    {Reach::refused, "refused",
     "let the firewall there pass TCP at all ports between the nodes, or see by --local-addr or --net that it is called at an address of its own"},
    {Reach::unreachable, "no way there",
     "see ip route get with that address; another network is named by --net, or by --local-addr on each node"},
    {Reach::silent, "no answer, as behind a firewall that drops it",
     "let the firewalls of both pass TCP at all ports between the nodes (nft list ruleset, iptables -S), or name another network by --net"},
    {Reach::no_answer, "connected, but no node of this run has answered",
     "see whether something else has that address, or that node has no time to answer"},
}};

// A pair's bytes were measured by the node with the lower number; the slower way counts.
struct MeasuredPair {
    int low;
    int high;
    std::int64_t sent;
    std::int64_t received;
    std::int64_t slower() const { return std::min(sent, received); }
};

std::vector<MeasuredPair> measured(const std::vector<PairReach>& pairs) {
    std::vector<MeasuredPair> list;
    for (const PairReach& pair : pairs) {
        if (pair.sent_mbit_s && pair.received_mbit_s)
            list.push_back({pair.from, pair.to, *pair.sent_mbit_s, *pair.received_mbit_s});
    }
    return list;
}

template <class Values>
std::int64_t median_of(const Values& by_node) {
    std::vector<std::int64_t> values;
    for (const auto& [node, value] : by_node) values.push_back(value);
    return median(std::move(values));
}

constexpr const char* kSlowRemedy =
    "see ethtool for its speed, duplex and errors, its cable and its switch; a faster network is named by "
    "--net";

}  // namespace

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
        findings.push_back({"reach", label_of(labels, to),
                            reach == Reach::no_answer ? FindingState::warning : FindingState::problem,
                            fmt::format("{} it at {}: {}", who, address, cause), remedy});
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

std::vector<Finding> speed_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs) {
    const std::vector<MeasuredPair> list = measured(pairs);
    if (list.empty()) return {};
    std::vector<std::int64_t> all;
    std::map<int, std::int64_t> best;  // of each node with any other one
    for (const MeasuredPair& pair : list) {
        all.push_back(pair.slower());
        for (const int node : {pair.low, pair.high}) best[node] = std::max(best[node], pair.slower());
    }
    const std::int64_t usual = median(all);
    const std::int64_t usual_best = median_of(best);
    std::vector<Finding> findings;
    const bool compares = labels.size() >= kLeastCompared;
    const auto is_slow_node = [&](int node) { return compares && best.at(node) * kMuchSlower < usual_best; };
    for (const auto& [node, value] : best) {
        if (is_slow_node(node))
            findings.push_back(warning_finding(
                "bandwidth", fmt::format("{} at most, median {}", rate_text(value), rate_text(usual_best)),
                kSlowRemedy, label_of(labels, node)));
    }
    for (const MeasuredPair& pair : list) {
        if (!compares || pair.slower() * kMuchSlower >= usual || is_slow_node(pair.low) ||
            is_slow_node(pair.high))
            continue;
        const bool is_sending = pair.sent < pair.received;
        findings.push_back(warning_finding(
            "bandwidth", fmt::format("{}, median {}", rate_text(pair.slower()), rate_text(usual)),
            kSlowRemedy,
            fmt::format("from {} to {}", label_of(labels, is_sending ? pair.low : pair.high),
                        label_of(labels, is_sending ? pair.high : pair.low))));
    }
    const auto least = std::min_element(list.begin(), list.end(),
                                        [](const auto& a, const auto& b) { return a.slower() < b.slower(); });
    findings.push_back(
        ok_finding("bandwidth", fmt::format("median {} by one connection, least {} between {} and {}",
                                            rate_text(usual), rate_text(least->slower()),
                                            label_of(labels, least->low), label_of(labels, least->high))));
    return findings;
}

std::vector<Finding> latency_findings(const std::vector<std::string>& labels,
                                      const std::vector<PairReach>& pairs) {
    std::vector<std::int64_t> all;
    std::map<int, std::int64_t> best;
    const PairReach* most = nullptr;
    for (const PairReach& pair : pairs) {
        if (!pair.latency_us) continue;
        all.push_back(*pair.latency_us);
        for (const int node : {pair.from, pair.to}) {
            const auto [known, is_new] = best.emplace(node, *pair.latency_us);
            if (!is_new) known->second = std::min(known->second, *pair.latency_us);
        }
        if (most == nullptr || *pair.latency_us > *most->latency_us) most = &pair;
    }
    if (most == nullptr) return {};
    const std::int64_t usual = median_of(best);
    std::vector<Finding> findings;
    for (const auto& [node, value] : best) {
        if (labels.size() >= kLeastCompared && value > usual * kMuchLater && value > kLateLatencyUs)
            findings.push_back(warning_finding(
                "latency", fmt::format("{} at least, median {}", time_text(value), time_text(usual)),
                "see where that node is, and what else it does", label_of(labels, node)));
    }
    findings.push_back(ok_finding(
        "latency",
        fmt::format("median {} there and back, most {} from {} to {}", time_text(median(all)),
                    time_text(*most->latency_us), label_of(labels, most->from), label_of(labels, most->to))));
    return findings;
}

std::vector<Finding> cluster_findings(const std::vector<NodeSummary>& nodes,
                                      const std::vector<PairReach>& pairs,
                                      const std::vector<std::vector<UnknownName>>& unknown) {
    std::vector<std::string> hosts;
    for (const NodeSummary& node : nodes) hosts.push_back(node.report.host);
    const std::vector<std::string> labels = node_labels(hosts);
    std::vector<Finding> findings = difference_findings(labels, nodes);
    for (const std::vector<Finding>& more : std::array{
             clock_findings(labels, pairs), name_findings(labels, hosts, unknown),
             reach_findings(labels, pairs), latency_findings(labels, pairs), speed_findings(labels, pairs)})
        findings.insert(findings.end(), more.begin(), more.end());
    return findings;
}

}  // namespace ddprun::inline launch
