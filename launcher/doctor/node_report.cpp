#include "launcher/doctor/node_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ddprun {
inline namespace launch {
namespace {

// Raised when a member changes its meaning or goes; new members do not count.
constexpr int kReportSchema = 1;

template <class Whole>
std::string json_text(const Whole& whole) {
    boost::json::object root;
    put_members<ReportRules>(root, whole);
    return boost::json::serialize(root);
}

template <class Whole>
std::optional<Whole> parse_whole(std::string_view text, std::size_t limit) {
    if (text.size() > limit) return std::nullopt;
    const auto root = parse_json_object(text, kMaxReportDepth);
    Whole whole;
    if (!root || !take_members<ReportRules>(*root, whole)) return std::nullopt;
    return whole;
}

std::string gpus_text(const GpuFacts& gpu) {
    return gpu.devices.count == 0 ? "none" : std::to_string(gpu.devices.count);
}

}  // namespace

bool is_sound(const Finding& finding) { return finding.state == FindingState::ok || !finding.remedy.empty(); }

Finding ok_finding(std::string topic, std::string text, std::string about) {
    return {std::move(topic), std::move(about), FindingState::ok, std::move(text), ""};
}

Finding warning_finding(std::string topic, std::string text, std::string remedy, std::string about) {
    return {std::move(topic), std::move(about), FindingState::warning, std::move(text), std::move(remedy)};
}

Finding problem_finding(std::string topic, std::string text, std::string remedy, std::string about) {
    return {std::move(topic), std::move(about), FindingState::problem, std::move(text), std::move(remedy)};
}

FindingState state_of(const NodeReport& report) {
    FindingState worst = FindingState::ok;
    for (const Finding& finding : report.findings) worst = std::max(worst, finding.state);
    return worst;
}

std::string line_of(const Finding& finding) {
    std::string line = finding.topic;
    if (!finding.about.empty()) line += " " + finding.about;
    line += ": " + finding.text;
    if (!finding.remedy.empty()) line += "; " + finding.remedy;
    return harmless_line(line, kMaxFindingText);
}

std::string to_text(const NodeReport& report) {
    std::string text;
    for (const Finding& finding : report.findings)
        text += fmt::format("{:<8} {}\n", name_of_value(finding.state), line_of(finding));
    return text;
}

std::string to_json(const NodeReport& report) {
    boost::json::object root{{"schema", kReportSchema}, {"state", name_of_value(state_of(report))}};
    put_members<ReportRules>(root, report);
    return boost::json::serialize(root) + "\n";
}

std::vector<NodeFact> node_facts(const Surroundings& seen) {
    std::vector<NodeFact> facts{{"ddprun", seen.version},      {"compiler", seen.compiler},
                                {"glibc", seen.glibc},         {"machine", seen.machine},
                                {"gpus", gpus_text(seen.gpu)}, {"driver", seen.gpu.driver}};
    if (seen.python) {
        facts.push_back({"python", seen.python->version});
        // Its place, behind the blank, differs by nature.
        facts.push_back({"pytorch", seen.python->torch.substr(0, seen.python->torch.find(' '))});
    }
    facts.push_back({"kernel", seen.kernel});
    return facts;
}

bool is_sound(const NodeList& list) {
    return std::is_sorted(list.nodes.begin(), list.nodes.end(),
                          [](const auto& a, const auto& b) { return a.rank < b.rank; });
}

std::string to_json(const NodeSummary& summary) { return json_text(summary); }
std::string to_json(const NodeList& list) { return json_text(list); }
std::string to_json(const ReachReport& report) { return json_text(report); }

std::optional<NodeSummary> parse_node_summary(std::string_view text) {
    return parse_whole<NodeSummary>(text, kMaxReportText);
}

std::optional<NodeList> parse_node_list(std::string_view text) {
    return parse_whole<NodeList>(text, kMaxReportText);
}

std::optional<ReachReport> parse_reach_report(std::string_view text, int from, int nodes) {
    auto report = parse_whole<ReachReport>(text, kMaxReachText);
    if (!report) return std::nullopt;
    const auto is_node = [nodes](int place) { return place >= 0 && place < nodes; };
    const auto& rate = report->rate;
    const bool is_right =
        std::ranges::all_of(report->pairs,
                            [&](const PairReach& pair) {
                                return pair.from == from && pair.to != from && is_node(pair.to);
                            }) &&
        (!rate || (rate->node == from && is_node(rate->least_with))) &&
        std::ranges::all_of(report->culprits, is_node);
    return is_right ? report : std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
