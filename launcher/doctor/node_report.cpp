#include "launcher/doctor/node_report.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ddprun::inline launch {
namespace {

// Raised when a member changes its meaning or goes; new members do not count.
constexpr int kReportSchema = 1;

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

std::optional<NodeReport> parse_node_report(std::string_view text) {
    if (text.size() > kMaxReportText) return std::nullopt;
    const auto root = parse_json_object(text, kMaxReportDepth);
    int schema = 0;
    NodeReport report;
    if (!root || !take_member<ReportRules>(*root, "schema", schema) || schema != kReportSchema ||
        !take_members<ReportRules>(*root, report))
        return std::nullopt;
    return report;
}

}  // namespace ddprun::inline launch
