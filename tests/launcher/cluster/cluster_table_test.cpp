#include "launcher/cluster/cluster_table.hpp"
#include "launcher/cluster/cluster_lines.hpp"

#include <fmt/core.h>

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

namespace {

ClusterTable table_of(const Environment& environment) {
    return derive_cluster({.environment = environment, .host_name = "h", .addresses = {}, .files = {}}, {});
}

// What is there beside a variable for it to be read.
struct NumberRow {
    const char* variable;
    Environment beside = {};
    int lowest = 0;
};

const Environment kStep = {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "2"}};
const Environment kMpi = {{"OMPI_COMM_WORLD_SIZE", "2"}};
const Environment kPals = {{"PALS_RANKID", "0"}, {"PMI_SIZE", "2"}};
const Environment kProcesses = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}};
const Environment kMosaic = {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"NODE_RANK", "0"}};
const Environment kComponents = {{"SLURM_HET_SIZE", "2"}, {"SLURM_JOB_NUM_NODES_HET_GROUP_0", "1"}};
const Environment kAzure = {{"AZUREML_RUN_ID", "7"}, {"NODE_RANK", "0"}, {"AZUREML_NODE_COUNT", "2"}};

const NumberRow kNumberRows[] = {
    {"SLURM_STEP_NUM_TASKS", {}, 1},
    {"SLURM_STEP_NUM_NODES", {}, 1},
    {"SLURM_PROCID", kStep},
    {"SLURM_LOCALID", kStep},
    {"SLURM_NODEID", kStep},
    {"SLURM_HET_SIZE", {}, 1},
    {"SLURM_HET_SIZE", kStep, 1},
    {"SLURM_JOB_NUM_NODES_HET_GROUP_1", kComponents, 1},
    {"SLURM_JOB_NUM_NODES", {}, 1},
    {"OMPI_COMM_WORLD_SIZE", {}, 1},
    {"OMPI_COMM_WORLD_RANK", kMpi},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", kMpi, 1},
    {"OMPI_COMM_WORLD_LOCAL_RANK", kMpi},
    {"OMPI_MCA_orte_num_nodes", kMpi, 1},
    {"PMI_SIZE", {}, 1},
    {"PMI_SIZE", {{"PALS_RANKID", "0"}}, 1},
    {"PALS_RANKID", kPals},
    {"PALS_NODEID", kPals},
    {"PMI_LOCAL_SIZE", kPals, 1},
    {"PALS_LOCAL_RANKID", kPals},
    {"MPI_LOCALNRANKS", {{"PMI_SIZE", "2"}}, 1},
    {"MV2_COMM_WORLD_SIZE", {}, 1},
    {"JSM_NAMESPACE_SIZE", {}, 1},
    {"HOROVOD_SIZE", {}, 1},
    {"HOROVOD_CROSS_SIZE", {{"HOROVOD_SIZE", "2"}}, 1},
    {"HOROVOD_CROSS_RANK", {{"HOROVOD_SIZE", "2"}}},
    {"FLUX_JOB_SIZE", {}, 1},
    {"FLUX_JOB_NNODES", {{"FLUX_JOB_SIZE", "2"}}, 1},
    {"FLUX_TASK_RANK", {{"FLUX_JOB_SIZE", "2"}}},
    {"LSF_PM_TASKID", {}, 1},
    {"LWS_GROUP_SIZE", {}, 1},
    {"LWS_GROUP_SIZE", {{"LWS_WORKER_INDEX", "0"}}, 1},
    {"LWS_WORKER_INDEX", {{"LWS_GROUP_SIZE", "2"}}},
    {"AWS_BATCH_JOB_MAIN_NODE_INDEX", {{"AWS_BATCH_JOB_NUM_NODES", "2"}}},
    {"MEGASCALE_NUM_SLICES", {{"TPU_WORKER_HOSTNAMES", "a,b"}}, 1},
    {"NODE_RANK", kAzure},
    {"AZUREML_NODE_COUNT", kAzure, 1},
    {"VC_WORKER_NUM", {{"VC_TASK_INDEX", "0"}, {"VC_WORKER_HOSTS", "a,b"}}, 1},
    {"JOB_COMPLETION_INDEX", {}},
    {"WORLD_SIZE", {{"RANK", "0"}}, 1},
    {"WORLD_SIZE", kMosaic, 1},
    {"NODE_RANK", kMosaic},
    {"LOCAL_WORLD_SIZE", kMosaic, 1},
    {"RANK", {{"WORLD_SIZE", "2"}}},
    {"LOCAL_RANK", kProcesses},
    {"LOCAL_WORLD_SIZE", kProcesses, 1},
    {"JAX_NUM_PROCESSES", {}, 1},
    {"PBS_NODENUM", {{"PBS_JOBID", "7"}}},
    {"LSB_DJOB_NUMPROC", {{"LSB_JOBID", "7"}, {"LSB_HOSTS", "h h"}}, 1},
};

}  // namespace

TEST_CASE("cluster: what is set to no such number is refused by its name, and is never a job of one") {
    for (const NumberRow& row : kNumberRows) {
        for (const std::string wrong : {" ", "two", "2x", "-2", "0", "2.0", "99999999999999"}) {
            if (wrong == "0" && row.lowest == 0) continue;
            Environment environment = row.beside;
            environment[row.variable] = wrong;
            INFO(row.variable << "='" << wrong << "'");
            const std::string refusal = table_of(environment).refusal;
            CHECK_THAT(refusal,
                       Catch::Contains(fmt::format("{}={} is no whole number", row.variable, wrong)));
            CHECK(refusal.find('\n') == std::string::npos);
        }
    }
    // One that is empty is not set.
    for (const char* variable :
         {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "LWS_GROUP_SIZE"})
        CHECK(table_of({{variable, ""}}).refusal.empty());
    // WORLD_SIZE alone speaks of no place.
    CHECK(table_of({{"WORLD_SIZE", "x"}}).refusal.empty());
    CHECK_THAT(table_of({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "2"}}).refusal,
               Catch::Contains("SLURM_PROCID=2 is not below SLURM_STEP_NUM_TASKS=2"));
    // The next launcher's word, which may be that there is one task, does not stand for it.
    CHECK_THAT(table_of({{"OMPI_COMM_WORLD_SIZE", "x"}, {"SLURM_STEP_NUM_TASKS", "1"}}).refusal,
               Catch::Contains("OMPI_COMM_WORLD_SIZE=x"));
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

TEST_CASE("cluster: one of several processes of the same words is known by what has started them") {
    const auto place = [](const Environment& environment, const std::string& scheduler = "auto") {
        const ClusterView view{.environment = environment, .host_name = "n", .addresses = {}, .files = {}};
        return one_of_several(derive_cluster(view, {.scheduler = scheduler}));
    };
    const Environment step{
        {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_NODES", "2"}};
    CHECK(place(step) == "this is task 1 of 2 of a Slurm step (SLURM_STEP_NUM_TASKS=2)");
    CHECK(place(step, "none").empty());
    CHECK(place({{"PMI_SIZE", "4"}}) == "this is one of 4 tasks of an MPI job (PMI_SIZE=4)");
    CHECK(place({{"SKYPILOT_NUM_NODES", "2"}, {"SKYPILOT_NODE_RANK", "1"}}) ==
          "this is node 1 of 2 of a SkyPilot task (SKYPILOT_NUM_NODES=2)");
    CHECK(place({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}).empty());
    CHECK(place({{"SKYPILOT_NUM_NODES", "1"}, {"SKYPILOT_NODE_RANK", "0"}}).empty());
    // An allocation's script runs once.
    CHECK(
        place({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "n,m"}}).empty());
    CHECK(place({}).empty());
}

}  // namespace ddprun
