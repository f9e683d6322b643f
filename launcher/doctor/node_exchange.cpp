#include "launcher/doctor/node_exchange.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/bounded_child.hpp"
#include "launcher/doctor/cluster_findings.hpp"
#include "launcher/doctor/look_around.hpp"
#include "launcher/doctor/questions.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kRosterKey = "roster";
constexpr const char* kFailedKey = "failed";

std::string key_of(std::string_view what, int number) { return fmt::format("{}/{}", what, number); }

std::string fresh_token() { return hex_text(random_bytes<kMeetingTokenSize / 2>("the nodes' token")); }

// Nothing where it does not come by then.
std::optional<std::string> value_by(Store& store, const std::string& key, Deadline deadline) {
    try {
        // One that is there already comes also when the time is over.
        return store.get(key, std::max(time_until(deadline), std::chrono::milliseconds(1)));
    } catch (const boost::system::system_error& error) {
        if (error.code() != Errc::timed_out) throw;
        return std::nullopt;
    }
}

// The words of all, by rank; an empty one where none came that can be read.
std::vector<std::optional<NodeWord>> gather_words(Store& store, int nodes) {
    const Deadline deadline = Clock::now() + kWordLimit;
    std::vector<std::optional<NodeWord>> words;
    for (int rank = 0; rank < nodes; ++rank) {
        const auto text = value_by(store, key_of("word", rank), deadline);
        words.push_back(text ? parse_node_word(*text) : std::nullopt);
    }
    return words;
}

Finding missing_finding(int rank, std::string_view what) {
    return problem_finding("node", std::string(what),
                           "see whether it hangs there: look for ddprun doctor in ps, and for D in its state",
                           fmt::format("with rank {}", rank));
}

// Where this node stands among the others, whose ranks are their places from now on.
class Table {
  public:
    Table(Roster roster, int rank) : roster_(std::move(roster)) {
        for (std::size_t i = 0; i < roster_.nodes.size(); ++i) {
            if (roster_.nodes[i].rank == rank) place_ = static_cast<int>(i);
            roster_.nodes[i].rank = static_cast<int>(i);
        }
    }

    const std::string& token() const { return roster_.token; }
    // Nothing: node 0 did not hear this one in time.
    std::optional<int> place() const { return place_; }
    int size() const { return static_cast<int>(roster_.nodes.size()); }
    const MeetingNode& at(int place) const { return roster_.nodes.at(static_cast<std::size_t>(place)); }

    // One of each name that is not this node's own.
    std::vector<MeetingNode> peers_to_resolve() const {
        std::vector<MeetingNode> peers;
        for (const MeetingNode& node : roster_.nodes) {
            const auto same = [&node](const MeetingNode& other) { return other.host == node.host; };
            if (!same(at(*place_)) && std::none_of(peers.begin(), peers.end(), same)) peers.push_back(node);
        }
        return peers;
    }

  private:
    Roster roster_;
    std::optional<int> place_;
};

// Until all have done with it; false: somebody has not, and nobody waits for the next one.
bool end_round(Store& store, int round, int nodes, std::chrono::milliseconds limit) {
    if (store.add(key_of("met", round), 1) == nodes) store.set(key_of("go", round), "");
    return value_by(store, key_of("go", round), Clock::now() + limit).has_value();
}

std::vector<PairReach> play_tournament(Store& store, const Table& table, Meetings& meetings) {
    const int nodes = table.size();
    const int rounds = rounds_of(nodes);
    const MeetingLimits limits = limits_for(nodes);
    std::vector<PairReach> pairs;
    for (int round = 0; round < rounds; ++round) {
        const auto partner = partner_of(*table.place(), round, nodes);
        if (partner) {
            pairs.push_back(meetings.meet(round, table.at(*partner), limits));
            if (pairs.back().reach != Reach::reached) store.add(kFailedKey, 1);
        }
        if (!end_round(store, round, nodes, limits.round + kRoundSlack)) return pairs;
    }
    if (rounds == 0 || store.add(kFailedKey, 0) == 0) return pairs;
    std::vector<MeetingNode> again;
    for (const PairReach& pair : pairs) {
        if (pair.reach != Reach::reached) again.push_back(table.at(pair.to));
    }
    for (PairReach& second : meetings.look_again(rounds, again, kSecondLook)) {
        const auto first = std::find_if(pairs.begin(), pairs.end(),
                                        [&second](const PairReach& pair) { return pair.to == second.to; });
        if (second.reach != Reach::silent) *first = std::move(second);
    }
    return pairs;
}

NodeTidings meet_all(Store& store, const Table& table, Meetings& meetings) {
    std::vector<MeetingNode> peers = table.peers_to_resolve();
    std::vector<std::string> names;
    for (const MeetingNode& peer : peers) names.push_back(peer.host);
    std::optional<BoundedChild> child;
    if (!names.empty()) child.emplace(ask_names(names));
    const Deadline deadline = Clock::now() + kDoctorLimit;
    NodeTidings tidings;
    meetings.begin(table.token(), *table.place());
    tidings.pairs = play_tournament(store, table, meetings);
    if (child) tidings.unknown = unknown_names(peers, names_facts(names.size(), child->await(deadline)));
    return tidings;
}

Roster roster_of(const std::vector<std::optional<NodeWord>>& words) {
    Roster roster{fresh_token(), {}};
    for (std::size_t rank = 0; rank < words.size(); ++rank) {
        if (words[rank])
            roster.nodes.push_back(
                {static_cast<int>(rank), words[rank]->report.host, words[rank]->address, words[rank]->port});
    }
    return roster;
}

// What the names of other nodes are worth on each of them.
std::vector<std::vector<UnknownName>> add_tidings(Store& store, const std::vector<int>& ranks,
                                                  ClusterReport& report) {
    const Deadline deadline = Clock::now() + kTidingsLimit;
    const int nodes = static_cast<int>(ranks.size());
    std::vector<std::vector<UnknownName>> unknown;
    for (int place = 0; place < nodes; ++place) {
        const int rank = ranks[static_cast<std::size_t>(place)];
        const auto text = value_by(store, key_of("tidings", rank), deadline);
        auto tidings = text ? parse_node_tidings(*text, place, nodes) : std::nullopt;
        if (!tidings)
            report.findings.push_back(missing_finding(rank, "did not say how it has reached the others"));
        else
            report.pairs.insert(report.pairs.end(), tidings->pairs.begin(), tidings->pairs.end());
        unknown.push_back(tidings ? std::move(tidings->unknown) : std::vector<UnknownName>());
    }
    return unknown;
}

void judge(const std::vector<std::vector<UnknownName>>& unknown, ClusterReport& report) {
    std::vector<std::string> hosts;
    for (const NodeWord& node : report.nodes) hosts.push_back(node.report.host);
    const std::vector<std::string> labels = node_labels(hosts);
    const auto add = [&report](std::vector<Finding> findings) {
        report.findings.insert(report.findings.end(), findings.begin(), findings.end());
    };
    add(difference_findings(labels, report.nodes));
    add(clock_findings(labels, report.pairs));
    add(name_findings(labels, hosts, unknown));
    add(reach_findings(labels, report.pairs));
    add(latency_findings(labels, report.pairs));
    add(speed_findings(labels, report.pairs));
}

}  // namespace

std::optional<ClusterReport> exchange(Store& store, const NodeSeat& seat, const NodeWord& own,
                                      Meetings& meetings) {
    store.set(key_of("word", seat.rank), to_json(own));
    ClusterReport report;
    std::vector<int> ranks;
    std::string roster;
    if (seat.rank == 0) {
        auto words = gather_words(store, seat.nodes);
        roster = to_json(roster_of(words));
        store.set(kRosterKey, roster);
        for (int rank = 0; rank < seat.nodes; ++rank) {
            auto& word = words[static_cast<std::size_t>(rank)];
            if (!word) {
                report.findings.push_back(missing_finding(rank, "has said nothing in time"));
                continue;
            }
            ranks.push_back(rank);
            report.nodes.push_back(std::move(*word));
        }
    } else {
        roster = store.get(kRosterKey, kRosterLimit);
    }
    auto parsed = parse_roster(roster);
    if (!parsed) fail(Errc::malformed, "what node 0 says of the others cannot be read");
    const Table table(std::move(*parsed), seat.rank);
    if (!table.place()) return std::nullopt;
    store.set(key_of("tidings", seat.rank), to_json(meet_all(store, table, meetings)));
    if (seat.rank != 0) return std::nullopt;
    judge(add_tidings(store, ranks, report), report);
    return report;
}

}  // namespace ddprun::inline launch
