#include "apps/ddprun/doctor/doctor_node.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/doctor/doctor_command.hpp"
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/meeting_address.hpp"
#include "launcher/doctor/node_exchange.hpp"
#include "rendezvous/job/exit_code.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/store/tcp_store.hpp"

namespace ddprun {
namespace {

// The job's store is there before its workers.
constexpr std::chrono::seconds kStoreTimeout{30};

Finding absent_finding(int expected, int there) {
    if (there == expected) return ok_finding("nodes", fmt::format("{} of {} are there", there, expected));
    return problem_finding(
        "nodes", fmt::format("{} of {} are there; the others have not come in time", there, expected),
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
    CLI::App app("One node's part in ddprun doctor", "ddprun doctor");
    const std::vector<OptionGroup> groups = {{"",
                                              {{"--json", "", "As one JSON object", into(json)},
                                               {"--of", "N", "Nodes", into(expected, number(1, kMaxNodes))},
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
    report->findings.insert(report->findings.begin(), absent_finding(expected, place.world_size));
    const std::string text = json ? to_json(*report) : to_text(*report);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return kExitSystem;
    return state_of(*report) == FindingState::problem ? kExitProblem : 0;
}

}  // namespace ddprun
