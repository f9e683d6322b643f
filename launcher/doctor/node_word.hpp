// What the nodes of a `ddprun doctor` tell each other, by way of the job's store, as JSON. All of it is another process's
// word, and read within limits. Pure.
//
//   each node    NodeWord      what it has found, and where the others may call it
//   node 0       Roster        who takes part, and by which token
//   each node    NodeTidings   how it has reached the others
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/node_report.hpp"
#include "launcher/doctor/surroundings.hpp"
#include "launcher/doctor/tournament.hpp"

namespace ddprun::inline launch {

// What should be the same on all nodes, or is told where it is not.
struct NodeFact {
    std::string topic;  // "pytorch"
    std::string value;  // "2.6.0"; empty: there is none
};
BOOST_DESCRIBE_STRUCT(NodeFact, (), (topic, value))

// In an order of its own: that in which differences are told.
std::vector<NodeFact> node_facts(const Surroundings& seen);

inline constexpr std::size_t kMaxNodeFacts = 32;
inline constexpr std::size_t kMaxTidingsText = 4 * 1024 * 1024;
// Random bytes, as hexadecimal digits.
inline constexpr std::size_t kMeetingTokenSize = 64;

struct NodeWord {
    NodeReport report;
    std::vector<NodeFact> facts;
    std::string address;  // numeric
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(NodeWord, (), (report, facts, address, port))
constexpr std::size_t limit_of(Of<&NodeWord::facts>) { return kMaxNodeFacts; }
constexpr NumberRange range_of(Of<&NodeWord::port>) { return {0, 65'535}; }

struct MeetingNode {
    int rank = 0;
    std::string host;  // its own name
    std::string address;
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(MeetingNode, (), (rank, host, address, port))
constexpr NumberRange range_of(Of<&MeetingNode::rank>) { return {0, kMaxTournamentNodes - 1}; }
constexpr NumberRange range_of(Of<&MeetingNode::port>) { return {1, 65'535}; }

struct Roster {
    std::string token;
    std::vector<MeetingNode> nodes;  // by rank
};
BOOST_DESCRIBE_STRUCT(Roster, (), (token, nodes))
constexpr std::size_t limit_of(Of<&Roster::nodes>) { return kMaxTournamentNodes; }
bool is_sound(const Roster& roster);

enum class Reach {
    reached,
    refused,      // nobody listens there, or a firewall says so
    unreachable,  // the system knows no way
    silent,       // no answer to what was sent
    no_answer,    // connected, but not to a node of this run, or it did not get to it
};
BOOST_DESCRIBE_ENUM(Reach, reached, refused, unreachable, silent, no_answer)

// How one node has reached another one.
struct PairReach {
    int from = 0;
    int to = 0;
    Reach reach = Reach::silent;
    std::string address;  // that was called
    std::string error;    // the system's word; empty where it was reached, or nothing was said
    // Nothing: not measured.
    std::optional<std::int64_t> latency_us;       // there and back, the least of several
    std::optional<std::int64_t> clock_offset_us;  // how far the other one's clock is ahead, within latency_us
    std::optional<std::int64_t> sent_mbit_s;      // by one connection
    std::optional<std::int64_t> received_mbit_s;
};
BOOST_DESCRIBE_STRUCT(PairReach, (),
                      (from, to, reach, address, error, latency_us, clock_offset_us, sent_mbit_s,
                       received_mbit_s))

// The name of another node that is of no use on this one.
struct UnknownName {
    std::string host;
    std::string why;  // a sentence's end, behind the name
};
BOOST_DESCRIBE_STRUCT(UnknownName, (), (host, why))

struct NodeTidings {
    std::vector<PairReach> pairs;
    std::vector<UnknownName> unknown;
};
BOOST_DESCRIBE_STRUCT(NodeTidings, (), (pairs, unknown))
constexpr std::size_t limit_of(Of<&NodeTidings::pairs>) { return kMaxTournamentNodes; }
constexpr std::size_t limit_of(Of<&NodeTidings::unknown>) { return kMaxTournamentNodes; }

std::string to_json(const NodeWord& word);
std::string to_json(const Roster& roster);
std::string to_json(const NodeTidings& tidings);
std::optional<NodeWord> parse_node_word(std::string_view text);
std::optional<Roster> parse_roster(std::string_view text);
// Of node `from`, among so many; nothing, too, where it speaks of others than these.
std::optional<NodeTidings> parse_node_tidings(std::string_view text, int from, int nodes);

}  // namespace ddprun::inline launch
