#include "launcher/doctor/cluster_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "launcher/cluster/host_list.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// Raised when a member changes its meaning or goes; new members do not count.
constexpr int kClusterSchema = 2;

// So many texts are shown of a finding that nodes word differently.
constexpr std::size_t kMaxWordsShown = 3;
// Findings about several nodes beside each other are shown up to so many of one topic.
constexpr std::size_t kMaxOfTopic = 8;

struct FindingGroup {
    Finding finding;
    std::vector<std::size_t> nodes;
};

// The node's own name, and its address, are no difference.
std::string without_names(std::string text, const NodeSummary& node) {
    const auto is_of_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == ':';
    };
    for (const auto& [name, sign] :
         {std::pair(node.report.host, "<host>"), std::pair(node.address, "<address>")}) {
        for (auto at = text.find(name); at != std::string::npos && !name.empty();
             at = text.find(name, at + 1)) {
            const auto end = at + name.size();
            if ((at > 0 && is_of_name(text[at - 1])) || (end < text.size() && is_of_name(text[end])))
                continue;
            text.replace(at, name.size(), sign);
        }
    }
    return text;
}

void add_to_groups(std::vector<FindingGroup>& groups, Finding finding, std::size_t node) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&finding](const FindingGroup& group) {
        return group.finding == finding;
    });
    FindingGroup& group =
        same == groups.end() ? groups.emplace_back(FindingGroup{std::move(finding), {}}) : *same;
    // A node may say a thing twice.
    if (group.nodes.empty() || group.nodes.back() != node) group.nodes.push_back(node);
}

// Groups the findings of a state, in the order in which they come; a finding with too many different texts is
// one group.
std::vector<FindingGroup> grouped(const std::vector<NodeSummary>& nodes, FindingState state) {
    std::vector<FindingGroup> groups;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        for (Finding finding : nodes[node].report.findings) {
            if (finding.state != state) continue;
            finding.text = without_names(std::move(finding.text), nodes[node]);
            finding.remedy = without_names(std::move(finding.remedy), nodes[node]);
            add_to_groups(groups, std::move(finding), node);
        }
    }
    std::vector<FindingGroup> merged;
    for (const FindingGroup& group : groups) {
        const auto is_alike = [&group](const FindingGroup& other) {
            return other.finding.topic == group.finding.topic && other.finding.about == group.finding.about;
        };
        const auto words = std::count_if(groups.begin(), groups.end(), is_alike);
        const auto first = std::find_if(merged.begin(), merged.end(), is_alike);
        if (words <= static_cast<std::ptrdiff_t>(kMaxWordsShown) || first == merged.end()) {
            merged.push_back(group);
            continue;
        }
        first->nodes.insert(first->nodes.end(), group.nodes.begin(), group.nodes.end());
        std::sort(first->nodes.begin(), first->nodes.end());
        first->nodes.erase(std::unique(first->nodes.begin(), first->nodes.end()), first->nodes.end());
    }
    return merged;
}

std::string subject_of(const Finding& finding) {
    return finding.about.empty() ? finding.topic : finding.topic + " " + finding.about;
}

// Returns the subjects that are in order on all nodes.
std::vector<std::string> sound_subjects(const std::vector<NodeSummary>& nodes) {
    std::vector<std::string> sound, unsound;
    const auto note = [](std::vector<std::string>& list, const std::string& subject) {
        if (std::find(list.begin(), list.end(), subject) == list.end()) list.push_back(subject);
    };
    for (const NodeSummary& node : nodes) {
        for (const Finding& finding : node.report.findings)
            note(finding.state == FindingState::ok ? sound : unsound, subject_of(finding));
    }
    std::erase_if(sound, [&unsound](const std::string& subject) {
        return std::find(unsound.begin(), unsound.end(), subject) != unsound.end();
    });
    return sound;
}

std::string all_of(const std::vector<std::string>& labels) {
    return labels.size() == 1 ? labels.front() : fmt::format("all {} nodes", labels.size());
}

std::string state_column(FindingState state) { return fmt::format("{:<8} ", name_of_value(state)); }

std::string group_line(const FindingGroup& group, const std::vector<NodeSummary>& nodes,
                       const std::vector<std::string>& labels) {
    std::vector<std::string> names;
    for (const std::size_t node : group.nodes) names.push_back(labels.at(node));
    const std::string who = names.size() == labels.size() ? all_of(labels) : compressed_hosts(names);
    // A finding of one node alone is shown with that node's own name.
    const Finding* finding = &group.finding;
    if (group.nodes.size() == 1) {
        const NodeSummary& node = nodes.at(group.nodes.front());
        for (const Finding& own : node.report.findings) {
            if (own.topic == finding->topic && own.about == finding->about && own.state == finding->state)
                finding = &own;
        }
    }
    return state_column(finding->state) + harmless_line(who) + ": " + line_of(*finding);
}

// Adds the findings about several nodes that are of a state.
void add_common_lines(const std::vector<Finding>& findings, FindingState state,
                      std::vector<std::string>& lines) {
    std::map<std::string, std::size_t> counts;
    for (const Finding& finding : findings) {
        if (finding.state == state && ++counts[finding.topic] <= kMaxOfTopic)
            lines.push_back(state_column(state) + line_of(finding));
    }
    for (const auto& [topic, count] : counts) {
        if (count > kMaxOfTopic)
            lines.push_back(fmt::format("{}{}: and {} more; --json prints all", state_column(state), topic,
                                        count - kMaxOfTopic));
    }
}

std::vector<std::string> group_lines(const ClusterReport& report, const std::vector<std::string>& labels) {
    std::vector<std::string> lines;
    for (const FindingState state : {FindingState::problem, FindingState::warning}) {
        for (const FindingGroup& group : grouped(report.nodes, state))
            lines.push_back(group_line(group, report.nodes, labels));
        add_common_lines(report.findings, state, lines);
    }
    return lines;
}

std::string rates_text(const std::vector<std::string>& labels, std::vector<NodeRate> rates) {
    std::stable_sort(rates.begin(), rates.end(),
                     [](const NodeRate& a, const NodeRate& b) { return a.mbit_s < b.mbit_s; });
    std::string text;
    for (std::size_t i = 0; i < std::min(rates.size(), kMaxRateLines); ++i) {
        const NodeRate& rate = rates[i];
        text += fmt::format("rate     {:>12} each way, latency {:>8}: {}\n", rate_text(rate.mbit_s),
                            time_text(rate.latency_us),
                            harmless_line(labels.at(static_cast<std::size_t>(rate.node))));
    }
    if (rates.size() > kMaxRateLines)
        text +=
            fmt::format("and {} nodes that are no slower; --json prints all\n", rates.size() - kMaxRateLines);
    return text;
}

boost::json::object node_object(const NodeSummary& node) {
    boost::json::object object{{"state", name_of_value(state_of(node.report))}};
    put_members<ReportRules>(object, node.report);
    object["address"] = json_of<ReportRules>(node.address);
    object["facts"] = json_of<ReportRules, kMaxNodeFacts>(node.facts);
    return object;
}

template <class Item, class Write>
std::string list_text(std::string_view name, const std::vector<Item>& items, Write write) {
    std::string text = fmt::format(",\n\"{}\":[", name);
    const char* between = "\n";
    for (const Item& item : items) {
        text += between + boost::json::serialize(write(item));
        between = ",\n";
    }
    return text + "]";
}

}  // namespace

std::string rate_text(std::int64_t mbit_s) {
    return mbit_s < 1000 ? fmt::format("{} Mbit/s", mbit_s)
                         : fmt::format("{:.1f} Gbit/s", static_cast<double>(mbit_s) / 1000);
}

std::string time_text(std::int64_t us) {
    return us < 1000 ? fmt::format("{} us", us) : fmt::format("{:.1f} ms", static_cast<double>(us) / 1000);
}

FindingState state_of(const ClusterReport& report) {
    FindingState worst = FindingState::ok;
    for (const NodeSummary& node : report.nodes) worst = std::max(worst, state_of(node.report));
    for (const Finding& finding : report.findings) worst = std::max(worst, finding.state);
    return worst;
}

std::string to_text(const ClusterReport& report) {
    std::vector<std::string> hosts;
    for (const NodeSummary& node : report.nodes) hosts.push_back(node.report.host);
    const std::vector<std::string> labels = node_labels(hosts);
    std::string text;
    const std::vector<std::string> sound = sound_subjects(report.nodes);
    if (!sound.empty()) {
        std::string list;
        for (const std::string& subject : sound) list += (list.empty() ? "" : ", ") + subject;
        text += fmt::format("{}{}: {}\n", state_column(FindingState::ok), harmless_line(all_of(labels)),
                            harmless_line(list, kMaxFindingText));
    }
    std::vector<std::string> lines;
    add_common_lines(report.findings, FindingState::ok, lines);
    for (std::string& line : group_lines(report, labels)) lines.push_back(std::move(line));
    const std::size_t shown = lines.size() > kMaxGroupLines ? kMaxGroupLines - 1 : lines.size();
    for (std::size_t i = 0; i < shown; ++i) text += lines[i] + "\n";
    if (shown < lines.size())
        text += fmt::format("and {} more findings; --json prints all\n", lines.size() - shown);
    return text + rates_text(labels, report.rates);
}

std::string to_json(const ClusterReport& report) {
    std::string text =
        fmt::format("{{\"schema\":{},\"state\":\"{}\"", kClusterSchema, name_of_value(state_of(report)));
    const auto written = [](const auto& item) { return json_of<ReportRules>(item); };
    text += list_text("nodes", report.nodes, node_object);
    text += list_text("findings", report.findings, written);
    text += list_text("pairs", report.pairs, written);
    text += list_text("rates", report.rates, written);
    return text + "}\n";
}

}  // namespace launch
}  // namespace ddprun
