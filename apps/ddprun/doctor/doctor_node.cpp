#include "apps/ddprun/doctor/doctor_node.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/option_row.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddprun/doctor/doctor_command.hpp"
#include "launcher/cluster/host_list.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/meeting_address.hpp"
#include "launcher/doctor/node_exchange.hpp"
#include "rendezvous/job/exit_code.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/store/tcp_store.hpp"

namespace ddprun::inline app {
namespace {

// The job's store is there before its workers.
constexpr std::chrono::seconds kStoreTimeout{30};

// Those of the list that none of these nodes is; none where it names no hosts, or the nodes' own names say otherwise.
std::vector<std::string> absent_hosts(std::string_view list, const ClusterReport& report, int absent) {
    const auto expanded = expand_host_list(list);
    const auto* hosts = std::get_if<std::vector<std::string>>(&expanded);
    if (hosts == nullptr) return {};
    std::vector<bool> has_come(hosts->size());
    for (const NodeWord& node : report.nodes) {
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

Finding presence_finding(int expected, int there, const std::vector<std::string>& absent) {
    const std::string counted = fmt::format("{} of {} are there", there, expected);
    if (there == expected) return ok_finding("nodes", counted);
    const std::string others = absent.empty() ? "the others" : compressed_hosts(absent);
    return problem_finding(
        "nodes",
        fmt::format("{}; {} {} not come in time", counted, others, absent.size() == 1 ? "has" : "have"),
        "see what their ddprun says; each has to reach node 0 at --master-addr and --master-port");
}

}  // namespace

bool is_doctor_node(const std::vector<std::string>& words) {
    return words.size() > 1 && words[1] == kNodeRoleFlag;
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
    // Where the job itself has it.
    std::erase_if(request.ports,
                  [&place](const PortAsked& asked) { return asked.port == place.master_port; });
    const Surroundings seen = look_around(request);
    Meetings meetings;
    const NodeWord own{diagnose(seen), node_facts(seen),
                       meeting_address(environment, place.node_addr, seen.addresses), meetings.port()};
    TcpStore store({place.master_addr, place.master_port}, kStoreTimeout);
    auto report = exchange(store, {place.rank, place.world_size}, own, meetings);
    if (!report) return 0;
    const auto absent = absent_hosts(hosts_text, *report, std::max(0, expected - place.world_size));
    report->findings.insert(report->findings.begin(), presence_finding(expected, place.world_size, absent));
    print(json ? to_json(*report) : to_text(*report));
    return state_of(*report) == FindingState::problem ? kExitProblem : 0;
}

}  // namespace ddprun::inline app
