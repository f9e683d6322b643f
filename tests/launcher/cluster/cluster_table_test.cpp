#include "launcher/cluster/cluster_table.hpp"

#include <algorithm>
#include <fstream>
#include <set>

#include "rendezvous/net/endpoint.hpp"
#include "tests/launcher/cluster/captured_environment.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::string outcome_of(const CapturedEnvironment& captured) {
    std::string text;
    for (const std::string& line : cluster_lines(derive_cluster(captured.view, captured.request)))
        text += line + "\n";
    return text;
}

}  // namespace

TEST_CASE("cluster: captured environments, each with what is made of it") {
    const auto files = captured_files();
    CHECK(files.size() >= 40);
    for (const auto& file : files) {
        const CapturedEnvironment captured = read_captured(file);
        const std::string outcome = outcome_of(captured);
        const auto found =
            std::filesystem::path(DDPRUN_OUTCOMES) / std::filesystem::relative(file, DDPRUN_ENVIRONMENTS);
        INFO(file.filename().string() << "; with what is made of it now it is " << found.string());
        CHECK(outcome == captured.expected);
        if (outcome == captured.expected) continue;
        std::filesystem::create_directories(found.parent_path());
        std::ofstream(found) << captured.given << outcome;
    }
}

TEST_CASE("cluster: each file that an environment is made of is asked for") {
    for (const auto& file : captured_files()) {
        const CapturedEnvironment captured = read_captured(file);
        const auto asked = cluster_files(captured.view.environment);
        INFO(file.filename().string());
        for (const auto& [path, text] : captured.view.files)
            CHECK(std::find(asked.begin(), asked.end(), path) != asked.end());
    }
}

TEST_CASE("cluster: a refusal is one line, and names a way out") {
    for (const auto& file : captured_files()) {
        const CapturedEnvironment captured = read_captured(file);
        const std::string refusal = derive_cluster(captured.view, captured.request).refusal;
        INFO(file.filename().string());
        if (refusal.empty()) continue;
        CHECK(refusal.find('\n') == std::string::npos);
        CHECK(refusal.find("--") != std::string::npos);
    }
}

// Every variable and every file in turn names such a host, alone, in front of what it said, and behind it.
TEST_CASE("cluster: what is no name of a host stands in no table, whoever says it") {
    const auto check_names = [](const ClusterView& view, const ClusterRequest& request) {
        const ClusterTable table = derive_cluster(view, request);
        for (const ListedHost& host : table.hosts) CHECK(is_valid_host(host.name));
        const Claim* place = chosen(table, Fact::master_addr);
        CHECK((place == nullptr || is_valid_host(place->value)));
    };
    for (const auto& file : captured_files()) {
        const CapturedEnvironment captured = read_captured(file);
        INFO(file.filename().string());
        for (const std::string bad :
             {"-oProxyCommand=touch${IFS}x", "$(id)", "a;b", "-b", "a/b", "`id`", "\x1b[m"}) {
            const auto spoil_each = [&](auto& texts, ClusterView& view) {
                for (auto& [name, text] : texts) {
                    INFO(name << " with " << bad);
                    const std::string good = text;
                    for (const std::string& spoilt :
                         {bad, bad + "," + good, good + "," + bad, bad + " 1 " + good, bad + "\n" + good,
                          "[\"" + bad + "\",\"b\"]"}) {
                        text = spoilt;
                        check_names(view, captured.request);
                    }
                    text = good;
                }
            };
            ClusterView view = captured.view;
            spoil_each(view.environment, view);
            spoil_each(view.files, view);
        }
    }
}

TEST_CASE("cluster: what the user says is stronger than any environment") {
    for (const auto& file : captured_files()) {
        CapturedEnvironment captured = read_captured(file);
        INFO(file.filename().string());
        captured.request = {.said = {{Fact::nnodes, {"3", "--nnodes", Belief::command_line}},
                                     {Fact::node_rank, {"2", "--node-rank", Belief::command_line}},
                                     {Fact::master_addr, {"there", "--master-addr", Belief::command_line}}}};
        ClusterTable table = derive_cluster(captured.view, captured.request);
        CHECK(table.refusal.empty());
        CHECK(chosen_number(table, Fact::nnodes) == 3);
        CHECK(chosen_number(table, Fact::node_rank) == 2);
        CHECK(chosen(table, Fact::master_addr)->value == "there");
        const Claim* port = chosen(table, Fact::master_port);
        CHECK((port == nullptr || port->belief != Belief::assumed));
        for (const ClusterRequest& alone : {ClusterRequest{.said = {}, .one_node = true},
                                            ClusterRequest{.scheduler = "none", .said = {}}}) {
            table = derive_cluster(captured.view, alone);
            CHECK(table.refusal.empty());
            CHECK(table.situation == Situation::alone);
            CHECK(chosen_number(table, Fact::nnodes) == 1);
        }
    }
}

TEST_CASE("cluster: within a worker of ddprun or torchrun nothing is derived") {
    for (const auto& file : captured_files()) {
        CapturedEnvironment captured = read_captured(file);
        INFO(file.filename().string());
        for (const char* name : {"TORCHELASTIC_RUN_ID", "DDPRUN_RUN_ID"}) {
            ClusterView inside = captured.view;
            inside.environment[name] = "x";
            const ClusterTable table = derive_cluster(inside, {});
            CHECK(table.refusal.empty());
            CHECK(chosen_number(table, Fact::nnodes) == 1);
        }
    }
}

TEST_CASE("cluster: a job's ports are within their bounds, and the same wherever they are derived") {
    std::set<std::uint16_t> ports;
    for (int job = 0; job < 20'000; ++job) {
        const std::uint16_t port = port_of_job("slurm-" + std::to_string(job) + ".0");
        REQUIRE(kDerivedPortRange.contains(port));
        REQUIRE(port + derived_ports(kDerivedPortRange) - 1 <= kDerivedPortRange.last);
        ports.insert(port);
    }
    CHECK(ports.size() > 7'500);
    CHECK(port_of_job("slurm-4711.0") == port_of_job("slurm-4711.0"));
    CHECK(derived_ports(kDerivedPortRange) == kDerivedPorts);
    for (const PortRange range : {PortRange{7, 7}, PortRange{30'000, 30'002}, PortRange{65'500, 65'535}}) {
        for (int job = 0; job < 100; ++job) {
            const std::uint16_t port = port_of_job(std::to_string(job), range);
            REQUIRE(range.contains(port));
            REQUIRE(port + derived_ports(range) - 1 <= range.last);
        }
    }
}

TEST_CASE("cluster: the line about what was derived") {
    ClusterTable table;
    table.facts[Fact::nnodes].chosen = Claim{"2", "SLURM_STEP_NUM_NODES", Belief::task_launcher};
    table.facts[Fact::node_rank].chosen = Claim{"1", "SLURM_NODEID", Belief::task_launcher};
    table.facts[Fact::master_addr].chosen = Claim{"n1", "SLURM_STEP_NODELIST", Belief::task_launcher};
    CHECK(derived_line(table, 23456) ==
          "2 nodes by SLURM_STEP_NUM_NODES, this is node 1 by SLURM_NODEID, they meet at n1:23456 by "
          "SLURM_STEP_NODELIST");
    table.facts[Fact::nnodes].rivals = {{"8", "SLURM_JOB_NUM_NODES", Belief::allocation}};
    CHECK(rivals_text(table, Fact::nnodes) == " (SLURM_JOB_NUM_NODES says 8)");
    CHECK(rivals_text(table, Fact::node_rank).empty());
}

TEST_CASE("cluster: a value that is no number is passed over, or refused where nothing else is there") {
    for (const char* wrong : {"", " ", "two", "2x", "-2", "0", "2.0", "99999999999999"}) {
        CAPTURE(wrong);
        const auto table_of = [](const Environment& environment) {
            return derive_cluster(
                {.environment = environment, .host_name = "h", .addresses = {}, .files = {}}, {});
        };
        CHECK(table_of({{"SLURM_STEP_NUM_TASKS", wrong}}).refusal.empty());
        CHECK(table_of({{"OMPI_COMM_WORLD_SIZE", wrong}, {"PMI_SIZE", wrong}}).refusal.empty());
        // The next launcher's word counts then.
        CHECK_THAT(table_of({{"OMPI_COMM_WORLD_SIZE", wrong}, {"SLURM_STEP_NUM_TASKS", "2"}}).refusal,
                   Catch::Contains("SLURM_STEP_NUM_TASKS=2"));
        CHECK_THAT(table_of({{"LWS_GROUP_SIZE", wrong}, {"LWS_WORKER_INDEX", "0"}}).refusal,
                   Catch::Contains("--nnodes"));
    }
}

TEST_CASE("cluster: --scheduler by name looks at that one only") {
    const ClusterView view{.environment = {{"SLURM_STEP_NUM_NODES", "2"},
                                           {"SLURM_STEP_NODELIST", "n[1-2]"},
                                           {"SLURM_NODEID", "1"},
                                           {"LWS_GROUP_SIZE", "4"},
                                           {"LWS_WORKER_INDEX", "3"},
                                           {"LWS_LEADER_ADDRESS", "a"}},
                           .host_name = "n2",
                           .addresses = {},
                           .files = {}};
    CHECK(chosen_number(derive_cluster(view, {}), Fact::nnodes) == 2);
    CHECK(chosen_number(derive_cluster(view, {.scheduler = "lws", .said = {}}), Fact::nnodes) == 4);
    CHECK_THAT(derive_cluster(view, {.scheduler = "pbs", .said = {}}).refusal,
               Catch::Contains("--scheduler pbs: the environment has no sign of it (PBS_JOBID)"));
}

}  // namespace ddprun
