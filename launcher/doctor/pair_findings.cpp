#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/cluster_findings.hpp"

namespace ddprun::inline launch {
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
    const char* text;
    const char* remedy;
};
ReachText text_of(Reach reach) {
    switch (reach) {
        case Reach::reached: return {"reached", ""};
        case Reach::refused:
            return {"refused",
                    "let the firewall there pass TCP at all ports between the nodes, or see by "
                    "--local-addr or --net that it is called at an address of its own"};
        case Reach::unreachable:
            return {"no way there",
                    "see ip route get with that address; another network is named by --net, or "
                    "by --local-addr on each node"};
        case Reach::silent:
            return {"no answer, as behind a firewall that drops it",
                    "let the firewalls of both pass TCP at all ports between the nodes (nft list ruleset, "
                    "iptables -S), or name another network by --net"};
        case Reach::no_answer:
            return {"connected, but no node of this run has answered",
                    "see whether something else has that address, or that node has no time to answer"};
    }
    return {};
}

// Of each two nodes, what the one with the lower number has measured; the slower way counts.
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
    // Who fails to reach somebody, each at one address in one manner.
    std::map<std::tuple<int, Reach, std::string, std::string>, std::vector<std::string>> callers;
    for (const PairReach& pair : pairs) {
        if (pair.reach != Reach::reached)
            callers[{pair.to, pair.reach, pair.address, pair.error}].push_back(label_of(labels, pair.from));
    }
    std::vector<Finding> findings;
    for (const auto& [where, names] : callers) {
        const auto& [to, reach, address, error] = where;
        const auto [text, remedy] = text_of(reach);
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

}  // namespace ddprun::inline launch
