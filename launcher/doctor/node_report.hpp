// A NodeReport says what `ddprun doctor` has found on one node, as data that can be printed, or sent to be
// put beside the reports of other nodes. Through the job's store, as JSON, the nodes tell each other:
//
//   each node    NodeSummary   what it has found, and where the others may call it
//   node 0       NodeList      which nodes take part
//   each node    ReachReport   how, and how fast, it has reached the others
//
// Each of the texts comes from another process, and is read within limits. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/surroundings.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace launch {

// kMaxMeetingNodes: nodes that can meet at most.
inline constexpr int kMaxMeetingNodes = 1024;
// kMaxFindingText: bytes of another node's text; a longer one is cut.
inline constexpr std::size_t kMaxFindingText = 2048;
inline constexpr std::size_t kMaxReportDepth = 8;

// kGreatestNumber: numbers of other nodes are no greater, so that calculations cannot overflow. As
// microseconds it is 3,000 years.
inline constexpr std::int64_t kGreatestNumber = 100'000'000'000'000'000;

// ReportRules says how reports are written as JSON: texts are cut and made UTF-8, so that every reader can
// read them.
struct ReportRules : JsonRules {
    static constexpr NumberRange kNumbers{-kGreatestNumber, kGreatestNumber};
    static constexpr std::size_t kMaxText = kMaxFindingText;
    static constexpr std::size_t kMaxItemText = kMaxFindingText;

    static std::string text(const std::string& text, std::size_t limit) {
        return cut_text(valid_utf8(text), limit);
    }
};

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

// kMaxFindings: a report of another node that has more is refused.
inline constexpr std::size_t kMaxFindings = 256;
inline constexpr std::size_t kMaxReportText = 1024 * 1024;

struct NodeReport {
    std::string version;  // of ddprun
    std::string host;
    std::vector<Finding> findings;
};
BOOST_DESCRIBE_STRUCT(NodeReport, (), (version, host, findings))
constexpr std::size_t limit_of(Of<&NodeReport::findings>) { return kMaxFindings; }

// Returns the state of the worst finding; ok where there is none.
FindingState state_of(const NodeReport& report);

// Writes one line, fit for a terminal, without its newline: "topic about: text; remedy".
std::string line_of(const Finding& finding);

// Writes a line for each finding, behind its state.
std::string to_text(const NodeReport& report);

// Writes one object in one line, with `schema` and the report's own `state`.
std::string to_json(const NodeReport& report);

// NodeFact: a fact that should be the same on all nodes. Where it is not, the report says so.
struct NodeFact {
    std::string topic;  // "pytorch"
    std::string value;  // "2.6.0"; empty: there is none
};
BOOST_DESCRIBE_STRUCT(NodeFact, (), (topic, value))

// Returns the facts in the order in which differences are told.
std::vector<NodeFact> node_facts(const Surroundings& seen);

inline constexpr std::size_t kMaxNodeFacts = 32;
inline constexpr std::size_t kMaxReachText = 4 * 1024 * 1024;

struct NodeSummary {
    NodeReport report;
    std::vector<NodeFact> facts;
    std::string address;  // numeric
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(NodeSummary, (), (report, facts, address, port))
constexpr std::size_t limit_of(Of<&NodeSummary::facts>) { return kMaxNodeFacts; }
constexpr NumberRange range_of(Of<&NodeSummary::port>) { return {0, 65'535}; }

struct ListedNode {
    int rank = 0;
    std::string host;  // its own name
    std::string address;
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(ListedNode, (), (rank, host, address, port))
constexpr NumberRange range_of(Of<&ListedNode::rank>) { return {0, kMaxMeetingNodes - 1}; }
constexpr NumberRange range_of(Of<&ListedNode::port>) { return {1, 65'535}; }

struct NodeList {
    std::vector<ListedNode> nodes;  // by rank
};
BOOST_DESCRIBE_STRUCT(NodeList, (), (nodes))
constexpr std::size_t limit_of(Of<&NodeList::nodes>) { return kMaxMeetingNodes; }
bool is_sound(const NodeList& list);

enum class Reach {
    reached,
    refused,      // nothing listens there, or a firewall says so
    unreachable,  // the system knows no way
    silent,       // no answer to what was sent
};
BOOST_DESCRIBE_ENUM(Reach, reached, refused, unreachable, silent)

// A PairReach says how one node has reached another one.
struct PairReach {
    int from = 0;
    int to = 0;
    Reach reach = Reach::silent;
    std::string address;  // the address that was called
    std::string error;    // the system's word; empty where it was reached, or nothing was said
};
BOOST_DESCRIBE_STRUCT(PairReach, (), (from, to, reach, address, error))

// NodeRate says how fast one node is. Each exchange with another node goes both ways at one time, over one
// connection each way.
struct NodeRate {
    int node = 0;
    std::int64_t mbit_s = 0;                      // each way, with the quickest of the others
    std::int64_t least_mbit_s = 0;                // with the slowest one
    int least_with = 0;                           // the node of that rate
    std::int64_t latency_us = 0;                  // there and back, the least of all
    std::optional<std::int64_t> clock_offset_us;  // how far ahead of node 0's clock; nothing: not compared
};
BOOST_DESCRIBE_STRUCT(NodeRate, (), (node, mbit_s, least_mbit_s, least_with, latency_us, clock_offset_us))

// UnknownName is the name of another node that is of no use on this one.
struct UnknownName {
    std::string host;
    std::string why;  // a sentence's end, behind the name
};
BOOST_DESCRIBE_STRUCT(UnknownName, (), (host, why))

struct ReachReport {
    std::vector<PairReach> pairs;
    std::vector<UnknownName> unknown;
    std::optional<NodeRate> rate;  // nothing: it has measured with no node
    std::string error;             // why not all was measured
    std::vector<int> culprits;     // the nodes that the error is about
};
BOOST_DESCRIBE_STRUCT(ReachReport, (), (pairs, unknown, rate, error, culprits))
constexpr std::size_t limit_of(Of<&ReachReport::pairs>) { return kMaxMeetingNodes; }
constexpr std::size_t limit_of(Of<&ReachReport::unknown>) { return kMaxMeetingNodes; }
constexpr std::size_t limit_of(Of<&ReachReport::culprits>) { return kMaxMeetingNodes; }

std::string to_json(const NodeSummary& summary);
std::string to_json(const NodeList& list);
std::string to_json(const ReachReport& report);
std::optional<NodeSummary> parse_node_summary(std::string_view text);
std::optional<NodeList> parse_node_list(std::string_view text);
// Reads the report of node `from` among `nodes` nodes; nothing, too, where it names other nodes than these.
std::optional<ReachReport> parse_reach_report(std::string_view text, int from, int nodes);

}  // namespace launch
}  // namespace ddprun
