#include "apps/ddprun/modes/doctor_node.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "apps/cli/option_row.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddprun/modes/doctor_peers.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/own_python.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/cluster_findings.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/questions.hpp"
#include "launcher/features/node_check.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/listen.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace app {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

// The job's store is there before its workers.
constexpr std::chrono::seconds kStoreTimeout{30};
// Node 0 waits so long for the summaries of the others, once it has said its own; and the others for the
// list.
constexpr milliseconds kSummaryLimit{15'000};
constexpr milliseconds kListLimit{25'000};
// Node 0 waits so long for the results of the others once it has its own.
constexpr milliseconds kReachLimit{12'000};

constexpr const char* kListKey = "nodes";
constexpr const char* kAllReachKey = "all_reach";
constexpr const char* kYes = "yes";
constexpr const char* kNo = "no";

std::string key_of(std::string_view what, int number) { return fmt::format("{}/{}", what, number); }

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

// Rank 0 makes the list of those that have come, and the report that begins with them.
std::string make_list(Store& store, int nodes, ClusterReport& report) {
    const Deadline deadline = Clock::now() + kSummaryLimit;
    NodeList list;
    for (int rank = 0; rank < nodes; ++rank) {
        const auto text = value_by(store, key_of("node", rank), deadline);
        auto summary = text ? parse_node_summary(*text) : std::nullopt;
        if (!summary) {
            report.findings.push_back(silent_node_finding(rank, "has said nothing in time"));
            continue;
        }
        list.nodes.push_back({rank, summary->report.host, summary->address, summary->port});
        report.nodes.push_back(std::move(*summary));
    }
    std::string text = to_json(list);
    store.set(kListKey, text);
    return text;
}

// Returns one node of each name that is not the one at `place`.
std::vector<ListedNode> nodes_to_resolve(const std::vector<ListedNode>& nodes, int place) {
    const std::string& own = nodes[static_cast<std::size_t>(place)].host;
    std::vector<ListedNode> others;
    for (const ListedNode& node : nodes) {
        const auto is_same = [&node](const ListedNode& other) { return other.host == node.host; };
        if (node.host != own && std::none_of(others.begin(), others.end(), is_same)) others.push_back(node);
    }
    return others;
}

// True if each of so many nodes has reached each other one; false, too, if some node does not say it in time.
bool all_reach(Store& store, const std::vector<PairReach>& pairs, std::size_t nodes) {
    const bool is_well =
        std::ranges::all_of(pairs, [](const PairReach& pair) { return pair.reach == Reach::reached; });
    if (!is_well) store.set(kAllReachKey, kNo);
    if (is_well && store.add("reached", 1) == static_cast<std::int64_t>(nodes)) store.set(kAllReachKey, kYes);
    const auto calls = static_cast<int>(nodes / kMostCalledAtOnce);
    return value_by(store, kAllReachKey, Clock::now() + kCallLimit * (2 + calls)) == kYes;
}

// This node's part. `nodes` have their places for ranks. A child asks meanwhile for the addresses that the
// others' names stand for.
ReachReport reach_all(const Measuring& measuring, const std::vector<ListedNode>& nodes, int place) {
    const std::vector<ListedNode> named = nodes_to_resolve(nodes, place);
    std::vector<std::string> names;
    for (const ListedNode& node : named) names.push_back(node.host);
    std::optional<BoundedChild> child;
    if (!names.empty()) child.emplace(ask_names(names));
    const Deadline deadline = Clock::now() + kLookLimit;
    ReachReport report;
    report.pairs = call_nodes(nodes, place);
    if (nodes.size() > 1 && all_reach(*measuring.store, report.pairs, nodes.size()))
        measure_rates(measuring, static_cast<int>(nodes.size()), place, report);
    if (child) report.unknown = unknown_names(named, names_facts(names.size(), child->await(deadline)));
    return report;
}

// Adds the results of all nodes to the report, and what they mean. `ranks` are theirs in the job.
void conclude(Store& store, const std::vector<int>& ranks, ClusterReport& report) {
    const Deadline deadline = Clock::now() + kReachLimit;
    std::vector<ReachReport> reports;
    for (std::size_t place = 0; place < ranks.size(); ++place) {
        const int number = static_cast<int>(place);
        const auto text = value_by(store, key_of("reach", number), deadline);
        auto reach = text ? parse_reach_report(*text, number, static_cast<int>(ranks.size())) : std::nullopt;
        if (!reach)
            report.findings.push_back(
                silent_node_finding(ranks[place], "did not say how it has reached the others"));
        const ReachReport& own = reports.emplace_back(reach.value_or(ReachReport()));
        report.pairs.insert(report.pairs.end(), own.pairs.begin(), own.pairs.end());
        if (own.rate) report.rates.push_back(*own.rate);
    }
    for (Finding& finding : cluster_findings(report, reports)) report.findings.push_back(std::move(finding));
}

// Returns the whole report on rank 0, nothing on the others.
std::optional<ClusterReport> meet_others(const Measuring& measuring, const WorkerPlace& place,
                                         const NodeSummary& own) {
    Store& store = *measuring.store;
    store.set(key_of("node", place.rank), to_json(own));
    ClusterReport report;
    auto list = parse_node_list(place.rank == 0 ? make_list(store, place.world_size, report)
                                                : store.get(kListKey, kListLimit));
    if (!list) fail(Errc::malformed, "what node 0 says of the others cannot be read");
    std::vector<int> ranks;
    for (ListedNode& node : list->nodes) {
        ranks.push_back(node.rank);
        node.rank = static_cast<int>(ranks.size()) - 1;
    }
    const auto self = std::find(ranks.begin(), ranks.end(), place.rank);
    // Node 0 did not hear this one in time.
    if (self == ranks.end()) return std::nullopt;
    const int number = static_cast<int>(self - ranks.begin());
    store.set(key_of("reach", number), to_json(reach_all(measuring, list->nodes, number)));
    if (place.rank != 0) return std::nullopt;
    conclude(store, ranks, report);
    return report;
}

// Returns the hosts of the list that have not come; none if the list names no hosts, or the nodes' own names
// contradict it.
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

// There will be a worker for each usable GPU, or one.
std::size_t likely_workers(const Environment& environment) {
    return static_cast<std::size_t>(std::max(1, find_devices(environment, find_gpus()).count));
}

}  // namespace

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
    if (place.world_size > kMaxMeetingNodes)
        throw UsageError(fmt::format("doctor: {} nodes, at most {} can meet each other", place.world_size,
                                     kMaxMeetingNodes));
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
    auto report = meet_others({store, own.address, environment}, place, own);
    if (!report) return 0;
    const auto absent = absent_hosts(hosts_text, *report, std::max(0, expected - place.world_size));
    report->findings.insert(report->findings.begin(), presence_finding(expected, place.world_size, absent));
    print(json ? to_json(*report) : to_text(*report));
    return state_of(*report) == FindingState::problem ? kExitProblem : 0;
}

bool is_doctor_command(const std::vector<std::string>& words, const std::string& called) {
    return !words.empty() && words.front() == kDoctorWord && called != kTorchrunName &&
           called != kLegacyLaunchName;
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

}  // namespace app
}  // namespace ddprun
