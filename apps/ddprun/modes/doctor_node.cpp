#include "apps/ddprun/modes/doctor_node.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <optional>

#include "apps/cli/option_row.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/own_python.hpp"
#include "collectives/communicator.hpp"
#include "collectives/error.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/wire/frame.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/cluster_findings.hpp"
#include "launcher/doctor/cluster_report.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/questions.hpp"
#include "launcher/features/node_check.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline app {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

// The job's store is there before its workers.
constexpr std::chrono::seconds kStoreTimeout{30};
// Node 0 waits so long for the summaries of the others, once it has said its own; and the others for the list.
constexpr milliseconds kSummaryLimit{15'000};
constexpr milliseconds kListLimit{25'000};
// A node waits so long for the slowest of all at the end of a round, and node 0 for the last results.
constexpr milliseconds kRoundLimit{8'000};
constexpr milliseconds kReachLimit{12'000};
// A pair may take so long to find each other, and one amount of bytes to arrive.
constexpr milliseconds kJoinLimit{3'000};
constexpr milliseconds kTransferLimit{5'000};

constexpr std::size_t kMostCalledAtOnce = 256;
constexpr int kPings = 4;
// A rate counts once the bytes take so much longer than an empty answer.
constexpr int kLongerThanLatency = 4;
constexpr char kReached = '+';
constexpr char kNotReached = '-';
constexpr const char* kListKey = "nodes";

std::string key_of(std::string_view what, int number) { return fmt::format("{}/{}", what, number); }

std::int64_t wall_clock_us() {
    return std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

// Returns nothing if the value does not come by then.
std::optional<std::string> value_by(Store& store, const std::string& key, Deadline deadline) {
    try {
        // A value that is there already comes also when the time is over.
        return store.get(key, std::max(time_until(deadline), milliseconds(1)));
    } catch (const boost::system::system_error& error) {
        if (error.code() != Errc::timed_out) throw;
        return std::nullopt;
    }
}

Reach reach_of(const boost::system::error_code& error) {
    if (error == asio::error::connection_refused) return Reach::refused;
    return error == asio::error::timed_out ? Reach::silent : Reach::unreachable;
}

asio::awaitable<void> call_node(const ListedNode& node, Deadline deadline, PairReach& result) {
    const auto port = static_cast<std::uint16_t>(node.port);
    result.address = to_string(Endpoint{node.address, port});
    boost::system::error_code bad_address;
    const auto address = asio::ip::make_address(node.address, bad_address);
    if (bad_address) {
        result.reach = Reach::unreachable;
        result.error = "no address";
        co_return;
    }
    asio::steady_timer timer(co_await asio::this_coro::executor, deadline);
    std::vector<tcp::endpoint> addresses(1, tcp::endpoint(address, port));
    auto first = co_await (race_to_connect(std::move(addresses)) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return;  // The result says already that it is silent.
    const RaceResult race = std::move(std::get<0>(first));
    result.reach = race.socket ? Reach::reached : reach_of(race.error);
    if (!race.socket) result.error = race.error.message();
}

// PairEnd is one end of a pair. One end leads and sends orders, the other one follows:
//   1. an order is two numbers: how many bytes the leader sends now, and how many it is to get;
//   2. these bytes follow the order;
//   3. the follower answers with its clock, and with as many bytes as were asked for;
//   4. the leader takes the time from 1 to 3: of an order without bytes that is the latency;
//   5. an order of -1 is the last one.
class PairEnd {
  public:
    PairEnd(Communicator& pair, std::span<unsigned char> data)
        : pair_(pair), peer_(1 - pair.rank()), data_(data) {}

    void follow() {
        while (true) {
            Order order{};
            pair_.recv(std::span(order), peer_);
            const auto [given, asked] = order;
            const auto most = static_cast<std::int64_t>(data_.size());
            if (given < 0 || asked < 0 || given > most || asked > most) return;
            if (given > 0) pair_.recv(data_.first(static_cast<std::size_t>(given)), peer_);
            const std::array<std::int64_t, 1> clock{wall_clock_us()};
            pair_.send(std::span(clock), peer_);
            if (asked > 0) pair_.send(data_.first(static_cast<std::size_t>(asked)), peer_);
        }
    }

    // Takes the latency, and from the quickest answer the other node's clock.
    void ping(PairReach& result) {
        for (int i = 0; i < kPings; ++i) {
            const std::int64_t wall = wall_clock_us();
            const auto [took, there] = ask(0, 0);
            if (result.latency_us && *result.latency_us <= took) continue;
            result.latency_us = took;
            result.clock_offset_us = there - (wall + took / 2);
        }
    }

    // After ping(): the greatest rate of all amounts, in Mbit/s.
    std::int64_t rate(bool is_given, std::int64_t latency_us, microseconds time) {
        const std::int64_t enough = std::max<std::int64_t>(time.count(), kLongerThanLatency * latency_us);
        std::int64_t best = 0;
        for (auto bytes = static_cast<std::int64_t>(kLeastMeasured);; bytes *= 2) {
            const std::int64_t took = (is_given ? ask(bytes, 0) : ask(0, bytes)).took_us - latency_us;
            best = std::max(best, bytes * 8 / std::max<std::int64_t>(1, took));
            if (took >= enough || 2 * bytes > static_cast<std::int64_t>(data_.size())) return best;
        }
    }

    void end() {
        const Order last{-1, -1};
        pair_.send(std::span(last), peer_);
    }

  private:
    using Order = std::array<std::int64_t, 2>;
    struct Answer {
        std::int64_t took_us;
        std::int64_t clock_us;
    };

    Answer ask(std::int64_t given, std::int64_t asked) {
        const Order order{given, asked};
        std::array<std::int64_t, 1> clock{};
        const auto start = Clock::now();
        pair_.send(std::span(order), peer_);
        if (given > 0) pair_.send(data_.first(static_cast<std::size_t>(given)), peer_);
        pair_.recv(std::span(clock), peer_);
        if (asked > 0) pair_.recv(data_.first(static_cast<std::size_t>(asked)), peer_);
        return {std::chrono::duration_cast<microseconds>(Clock::now() - start).count(), clock.front()};
    }

    Communicator& pair_;
    int peer_;
    std::span<unsigned char> data_;
};

Place place_in_pair(const Environment& environment, const PairReach& pair, int round) {
    Place place;
    place.rank = pair.from < pair.to ? 0 : 1;
    place.world_size = 2;
    // Pairs of one round are told apart by their lower number.
    place.round = static_cast<std::uint32_t>(round * kMaxTournamentNodes + std::min(pair.from, pair.to));
    place.transport = Transport::tcp;
    place.host = read_host_settings(environment);
    place.host.sockets_per_peer = 1;
    place.mesh_key = read_mesh_key(environment);
    place.own_numbers = true;
    return place;
}

// Returns the summaries of all, by rank; an empty one where none came that can be read.
std::vector<std::optional<NodeSummary>> gather_summaries(Store& store, int nodes) {
    const Deadline deadline = Clock::now() + kSummaryLimit;
    std::vector<std::optional<NodeSummary>> summaries;
    for (int rank = 0; rank < nodes; ++rank) {
        const auto text = value_by(store, key_of("node", rank), deadline);
        summaries.push_back(text ? parse_node_summary(*text) : std::nullopt);
    }
    return summaries;
}

// Rank 0 makes the list of those that have come, and the report that begins with them.
std::string make_list(Store& store, int nodes, ClusterReport& report) {
    NodeList list;
    auto summaries = gather_summaries(store, nodes);
    for (int rank = 0; rank < nodes; ++rank) {
        auto& summary = summaries[static_cast<std::size_t>(rank)];
        if (!summary) {
            report.findings.push_back(silent_node_finding(rank, "has said nothing in time"));
            continue;
        }
        list.nodes.push_back({rank, summary->report.host, summary->address, summary->port});
        report.nodes.push_back(std::move(*summary));
    }
    const std::string text = to_json(list);
    store.set(kListKey, text);
    return text;
}

// This node among those that take part.
class Participant {
  public:
    // The ranks of `nodes` are their places from now on.
    Participant(Measuring measuring, std::vector<ListedNode> nodes, int place)
        : measuring_(std::move(measuring)),
          store_(*measuring_.store),
          nodes_(std::move(nodes)),
          place_(place) {
        for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].rank = static_cast<int>(i);
    }

    // A child asks meanwhile who the others' names stand for.
    ReachReport reach_all() {
        const std::vector<ListedNode> named = nodes_to_resolve();
        std::vector<std::string> names;
        for (const ListedNode& node : named) names.push_back(node.host);
        std::optional<BoundedChild> child;
        if (!names.empty()) child.emplace(ask_names(names));
        const Deadline deadline = Clock::now() + kLookLimit;
        ReachReport report{call_nodes(nodes_, place_), {}};
        measure_all(report.pairs);
        std::erase_if(report.pairs, [this](const PairReach& pair) { return pair.to == place_; });
        if (child) report.unknown = unknown_names(named, names_facts(names.size(), child->await(deadline)));
        return report;
    }

  private:
    // Returns one node of each name that is not this node's own.
    std::vector<ListedNode> nodes_to_resolve() const {
        std::vector<ListedNode> others;
        for (const ListedNode& node : nodes_) {
            const auto same = [&node](const ListedNode& other) { return other.host == node.host; };
            if (!same(nodes_[static_cast<std::size_t>(place_)]) &&
                std::none_of(others.begin(), others.end(), same))
                others.push_back(node);
        }
        return others;
    }

    void measure_all(std::vector<PairReach>& pairs) {
        std::string ways;
        for (const PairReach& pair : pairs) ways += pair.reach == Reach::reached ? kReached : kNotReached;
        store_.set(key_of("ways", place_), ways);
        const int nodes = static_cast<int>(nodes_.size());
        const microseconds time = round_time(nodes) / 8;
        for (int round = 0; round < rounds_of(nodes); ++round) {
            const auto partner = partner_of(place_, round, nodes);
            if (partner && reach_each_other(pairs, *partner))
                measure_pair(measuring_, round, time, pairs[static_cast<std::size_t>(*partner)]);
            // If a node has not done with the round, nobody begins the next one.
            if (!end_round(round)) return;
        }
    }

    bool reach_each_other(const std::vector<PairReach>& pairs, int partner) {
        if (pairs[static_cast<std::size_t>(partner)].reach != Reach::reached) return false;
        const auto theirs = value_by(store_, key_of("ways", partner), Clock::now() + 2 * kCallLimit);
        const auto place = static_cast<std::size_t>(place_);
        return theirs && place < theirs->size() && (*theirs)[place] == kReached;
    }

    bool end_round(int round) {
        if (store_.add(key_of("done", round), 1) == static_cast<std::int64_t>(nodes_.size()))
            store_.set(key_of("go", round), "");
        return value_by(store_, key_of("go", round), Clock::now() + kRoundLimit).has_value();
    }

    Measuring measuring_;
    Store& store_;
    std::vector<ListedNode> nodes_;
    int place_;
};

// Adds the results of all nodes to the report, and what they mean.
void conclude(Store& store, const std::vector<ListedNode>& nodes, ClusterReport& report) {
    const Deadline deadline = Clock::now() + kReachLimit;
    std::vector<std::vector<UnknownName>> unknown;
    for (std::size_t place = 0; place < nodes.size(); ++place) {
        const int number = static_cast<int>(place);
        const auto text = value_by(store, key_of("reach", number), deadline);
        auto reach = text ? parse_reach_report(*text, number, static_cast<int>(nodes.size())) : std::nullopt;
        if (!reach) {
            report.findings.push_back(
                silent_node_finding(nodes[place].rank, "did not say how it has reached the others"));
            reach.emplace();
        }
        report.pairs.insert(report.pairs.end(), reach->pairs.begin(), reach->pairs.end());
        unknown.push_back(std::move(reach->unknown));
    }
    for (Finding& finding : cluster_findings(report.nodes, report.pairs, unknown))
        report.findings.push_back(std::move(finding));
}

// Returns the whole report on rank 0, nothing on the others.
std::optional<ClusterReport> meet_others(Measuring measuring, const WorkerPlace& place,
                                         const NodeSummary& own) {
    const std::shared_ptr<Store> store = measuring.store;
    store->set(key_of("node", place.rank), to_json(own));
    ClusterReport report;
    const std::string text =
        place.rank == 0 ? make_list(*store, place.world_size, report) : store->get(kListKey, kListLimit);
    const auto list = parse_node_list(text);
    if (!list) fail(Errc::malformed, "what node 0 says of the others cannot be read");
    const auto self = std::find_if(list->nodes.begin(), list->nodes.end(),
                                   [&place](const ListedNode& node) { return node.rank == place.rank; });
    // Node 0 did not hear this one in time.
    if (self == list->nodes.end()) return std::nullopt;
    const int number = static_cast<int>(self - list->nodes.begin());
    Participant participant(std::move(measuring), list->nodes, number);
    store->set(key_of("reach", number), to_json(participant.reach_all()));
    if (place.rank != 0) return std::nullopt;
    conclude(*store, list->nodes, report);
    return report;
}

// Returns the hosts of the list that have not come; none if the list names no hosts, or the nodes' own names contradict it.
std::vector<std::string> absent_hosts(std::string_view list, const ClusterReport& report, int absent) {
    const auto expanded = expand_host_list(list);
    const auto* hosts = std::get_if<std::vector<std::string>>(&expanded);
    if (hosts == nullptr) return {};
    std::vector<bool> has_come(hosts->size());
    for (const NodeSummary& node : report.nodes) {
        if (const auto place = position_of(node.report.host, *hosts))
            has_come[static_cast<std::size_t>(*place)] = true;
    }
    std::vector<std::string> others;
    for (std::size_t i = 0; i < hosts->size(); ++i) {
        if (!has_come[i]) others.push_back((*hosts)[i]);
    }
    if (others.size() != static_cast<std::size_t>(absent)) others.clear();
    return others;
}

}  // namespace

std::vector<PairReach> call_nodes(const std::vector<ListedNode>& nodes, int self) {
    std::vector<PairReach> results(nodes.size());
    for (std::size_t first = 0; first < nodes.size(); first += kMostCalledAtOnce) {
        asio::io_context context(1);
        const Deadline deadline = Clock::now() + kCallLimit;
        for (std::size_t i = first; i < std::min(nodes.size(), first + kMostCalledAtOnce); ++i) {
            results[i].from = self;
            results[i].to = nodes[i].rank;
            if (nodes[i].rank != self)
                asio::co_spawn(context, call_node(nodes[i], deadline, results[i]), asio::detached);
        }
        context.run();
    }
    return results;
}

void measure_pair(Measuring& own, int round, microseconds time, PairReach& pair) {
    CommunicatorOptions options;
    options.join_timeout = kJoinLimit;
    options.operation_timeout = kTransferLimit;
    options.backend = BackendChoice::cpu;
    std::optional<Communicator> communicator;
    try {
        communicator.emplace(
            open_session(own.store, own.address, place_in_pair(own.environment, pair, round), options));
    } catch (const CollectiveError&) {
        pair.reach = Reach::no_answer;
        return;
    }
    try {
        PairEnd end(*communicator, own.data);
        if (pair.from > pair.to) end.follow();
        end.ping(pair);
        if (pair.from < pair.to) {
            pair.sent_mbit_s = end.rate(true, *pair.latency_us, time);
            pair.received_mbit_s = end.rate(false, *pair.latency_us, time);
        }
        end.end();
        if (pair.from < pair.to) end.follow();
    } catch (const CollectiveError&) {
        // The values that were measured until then count. A node that falls silent does not end the round, by which all learn of it.
    }
}

int run_doctor_node(const std::vector<std::string>& words, const Environment& environment) {
    // It runs as /proc/self/exe.
    ::prctl(PR_SET_NAME, "ddprun");
    bool json = false;
    int expected = 1;
    std::string log_dir;
    std::string hosts_text;
    CLI::App app("One node's part in ddprun doctor", "ddprun doctor");
    const std::vector<OptionGroup> groups = {{"",
                                              {{"--json", "", "As one JSON object", into(json)},
                                               {"--of", "N", "Nodes", into(expected, number(1, kMaxNodes))},
                                               {"--hosts", "LIST", "Their hosts", into(hosts_text)},
                                               {"--log-dir", "DIR", "Folder for logs", into(log_dir)}}}};
    add_standard_options(app, DDPRUN_VERSION);
    add_rows(app, groups);
    parse_words(app, groups, {words.begin() + 2, words.end()});
    take_values(app, groups);

    const WorkerPlace place = read_worker_place(environment);
    if (place.world_size > kMaxTournamentNodes)
        throw UsageError(fmt::format("doctor: {} nodes, at most {} can meet each other", place.world_size,
                                     kMaxTournamentNodes));
    LookRequest request = doctor_request(environment, log_dir);
    // The job itself has that port.
    std::erase_if(request.ports,
                  [&place](const PortAsked& asked) { return asked.port == place.master_port; });
    const Surroundings seen = look_around(request);
    // The others call here. The kernel answers them; nobody has to take their connections.
    asio::io_context context(1);
    const tcp::acceptor listener = listen_tcp(context.get_executor(), ListenScope::any, 0);
    const NodeSummary own{diagnose(seen), node_facts(seen),
                          meeting_address(environment, place.node_addr, seen.addresses),
                          listener.local_endpoint().port()};
    const auto store =
        std::make_shared<TcpStore>(Endpoint{place.master_addr, place.master_port}, kStoreTimeout);
    auto report =
        meet_others({store, own.address, environment, std::vector<unsigned char>(kMostMeasured)}, place, own);
    if (!report) return 0;
    const auto absent = absent_hosts(hosts_text, *report, std::max(0, expected - place.world_size));
    report->findings.insert(report->findings.begin(), presence_finding(expected, place.world_size, absent));
    print(json ? to_json(*report) : to_text(*report));
    return state_of(*report) == FindingState::problem ? kExitProblem : 0;
}

namespace {

// There will be a worker for each usable GPU, or one.
std::size_t likely_workers(const Environment& environment) {
    return static_cast<std::size_t>(std::max(1, find_devices(environment, find_gpus()).count));
}

}  // namespace

bool is_doctor_command(const std::vector<std::string>& words, const std::string& called) {
    return !words.empty() && words.front() == kDoctorWord && called != kTorchrunName &&
           called != kLegacyLaunchName;
}

bool is_doctors_job(const std::vector<std::string>& program) {
    return program.size() > 2 && program[0] == kThisProgram && program[1] == kDoctorWord &&
           program[2] == kNodeRoleFlag;
}

LookRequest doctor_request(const Environment& environment, const std::string& log_dir) {
    LookRequest request;
    request.environment = environment;
    request.host = host_name();
    request.workers = likely_workers(environment);
    request.ports = {{kDefaultMasterPort}, {kDefaultC10dPort}};
    request.folders = folders_asked(environment, log_dir);
    request.asks_name = true;
    const std::string* python = find_variable(environment, "PYTHON_EXEC");
    const std::string own = python != nullptr ? *python : own_python();
    request.python = own.empty() ? python_name(std::nullopt) : own;
    return request;
}

}  // namespace ddprun::inline app
