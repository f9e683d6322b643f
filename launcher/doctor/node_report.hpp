// NodeReport: what `ddprun doctor` says of a node, as data: so that it can be printed, and sent to be put beside
// other nodes'. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/report_rules.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun::inline launch {

enum class FindingState {
    ok,
    warning,  // some jobs will miss it
    problem,  // a job here will fail, or hang
};
BOOST_DESCRIBE_ENUM(FindingState, ok, warning, problem)

struct Finding {
    std::string topic;  // one word for programs: "port", "folder"
    std::string about;  // which one, where a topic has several: "29500", "/tmp"
    FindingState state = FindingState::ok;
    std::string text;    // what is so
    std::string remedy;  // the command, limit or flag that helps; empty only where the state is ok
};
BOOST_DESCRIBE_STRUCT(Finding, (), (topic, about, state, text, remedy))
bool is_sound(const Finding& finding);

Finding ok_finding(std::string topic, std::string text, std::string about = "");
Finding warning_finding(std::string topic, std::string text, std::string remedy, std::string about = "");
Finding problem_finding(std::string topic, std::string text, std::string remedy, std::string about = "");

// Of what another node says, so much is read.
inline constexpr std::size_t kMaxFindings = 256;
inline constexpr std::size_t kMaxReportText = 1024 * 1024;

struct NodeReport {
    std::string version;  // of ddprun
    std::string host;
    std::vector<Finding> findings;
};
BOOST_DESCRIBE_STRUCT(NodeReport, (), (version, host, findings))
constexpr std::size_t limit_of(Of<&NodeReport::findings>) { return kMaxFindings; }

// That of its worst finding; ok where there is none.
FindingState state_of(const NodeReport& report);

// One line, fit for a terminal, without its newline: "topic about: text; remedy".
std::string line_of(const Finding& finding);

// A line for each finding, behind its state.
std::string to_text(const NodeReport& report);

// One object in one line, with `schema` and the report's own `state`; and what such a text says, if it is one.
std::string to_json(const NodeReport& report);
std::optional<NodeReport> parse_node_report(std::string_view text);

}  // namespace ddprun::inline launch
