#include <functional>

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/adapted_task.hpp"
#include "apps/ddprun/plan/job_plan.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/features/event_log.hpp"
#include "rendezvous/control/control_message.hpp"
#include "tests/apps/step_of_two.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using ClusterWords = std::vector<std::string>;

JobPlan planned(ClusterWords words, Environment environment = kStepOfTwo) {
    words.emplace_back("p");
    const Said said = parse_command_line(words, environment);
    return plan_job(
        said,
        {.environment = std::move(environment), .host_name = "n2", .addresses = {"10.0.0.2"}, .files = {}});
}

std::string plan_refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("cluster plan: what nobody typed is refused with the variable that it came from") {
    const JobPlan job = planned({});
    CHECK(as_said(job, "--master-addr n1: no address of this machine") ==
          "--master-addr n1: no address of this machine (from SLURM_STEP_NODELIST)");
    CHECK(as_said(job, "--node-rank 1: x") == "--node-rank 1: x (from SLURM_NODEID)");
    CHECK(as_said(planned({"--master-addr=n1"}), "--master-addr n1: x") == "--master-addr n1: x");
    CHECK_THAT(plan_refusal([] { planned({}, with_variable(kStepOfTwo, "SLURM_STEP_NODELIST", "n1,,n2")); }),
               Catch::Contains("SLURM_STEP_NODELIST=n1,,n2: a name is missing"));
}

TEST_CASE("cluster plan: %r in paths is the number of the node, where it has one before the nodes meet") {
    const auto paths = [](const Said& line) {
        return ClusterWords{line.output.log_dir, line.log_file, line.features.of<EventLogOptions>().path,
                            line.result_file};
    };
    const ClusterWords signs{"--log-dir=d-%r-%t", "--log-file=f%%r%r", "--events=e.%r",
                             "--result-file=%r/%h"};
    const auto with = [&signs](ClusterWords words) {
        words.insert(words.begin(), signs.begin(), signs.end());
        return words;
    };
    CHECK(paths(planned(with({}), {})) == ClusterWords{"d-0-%t", "f%%r0", "e.0", "0/%h"});
    CHECK(paths(planned(with({}))) == ClusterWords{"d-1-%t", "f%%r1", "e.1", "1/%h"});
    CHECK(paths(planned(with({"--nnodes=4", "--node-rank=3"}), {})).back() == "3/%h");
    const ClusterWords c10d{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h"};
    const auto unnumbered = [&c10d](const char* flag) {
        ClusterWords words = c10d;
        words.emplace_back(flag);
        return plan_refusal([&words] { planned(words, {}); });
    };
    for (const std::string flag : {"--log-dir", "--log-file", "--events", "--result-file"}) {
        CHECK(unnumbered((flag + "=a%r").c_str()) == flag +
                                                         " a%r: %r, the number of this node, is known only "
                                                         "once it has joined; %h tells nodes apart, or "
                                                         "give --node-rank");
    }
    CHECK(unnumbered("--log-dir=a%%r") == "accepted");
    CHECK(paths(planned(with({"--nnodes=2", "--rdzv-backend=c10d", "--node-rank=1"}), {})).back() == "1/%h");
}

TEST_CASE("cluster plan: what nobody has said comes from the step") {
    const JobPlan plan = planned({"--gpu-bind=none"});
    CHECK(plan.part.is_derived);
    CHECK(plan.nnodes == 2);
    CHECK(plan.node_rank == 1);
    CHECK(plan.master_addr == "n1");
    CHECK(plan.master_port == port_of_job("slurm-7.0"));
    CHECK(plan.run_id == "slurm-7.0");
    CHECK(plan.part.host_list.hosts == std::vector<std::string>{"n1", "n2"});
    CHECK(plan.nproc_per_node == WorkerCount(ForEachGpu{}));
    CHECK_FALSE(plan.address_assumed);
    NodeFacts facts;
    facts.hardware.devices.count = 3;
    const LaunchOptions options = resolve_launch(plan, facts);
    CHECK(options.workers.size() == 3);
    CHECK(options.master_ports == kDerivedPorts);
    facts.hardware.devices.count = 0;
    JobPlan line = plan;
    CHECK(resolve_launch(line, facts).workers.size() == 1);
    // One screen shows what all nodes say.
    CHECK(line.part.shares_screen);
    CHECK(resolve_launch(line, facts).placement_remarks.empty());
    line.node_rank = 0;
    CHECK_THAT(resolve_launch(line, facts).placement_remarks.at(0), Catch::Contains("--nproc-per-node"));
}

TEST_CASE("cluster plan: what is said is stronger, value by value") {
    const JobPlan address = planned({"--master-addr=a", "--nproc-per-node=4"});
    CHECK((address.nnodes == 2 && address.node_rank == 1 && address.master_addr == "a"));
    CHECK_FALSE(address.master_port);
    CHECK_FALSE(std::holds_alternative<ForEachGpu>(address.nproc_per_node));
    CHECK(planned({"--master-port=7"}).master_port == 7);
    CHECK_FALSE(planned({"--master-port=7"}).part.port_derived);
    CHECK(planned({"--rdzv-endpoint=a:7"}).master_addr == "a");
    CHECK(planned({"--rdzv-id=mine"}).run_id == "mine");
    CHECK(planned({"--nnodes=2:4"}).nnodes == 4);
    CHECK(planned({"--nnodes=2:4"}).node_rank == 1);
    const JobPlan all = planned({"--nnodes=3", "--node-rank=2", "--master-addr=a"});
    CHECK_FALSE(all.part.is_derived);
    CHECK(all.run_id == "none");
    CHECK_FALSE(all.master_port);
    CHECK(planned({}, with_variable(kStepOfTwo, "PET_MASTER_ADDR", "b")).master_addr == "b");
    CHECK(planned({}, with_variable(kStepOfTwo, "DDPRUN_MASTER_ADDR", "c")).master_addr == "c");
    CHECK_THAT(plan_refusal([] {
                   planned({"--nnodes=2", "--master-port=0"});
               }),
               Catch::Contains("--master-port 0"));
    CHECK_THAT(plan_refusal([] { planned({"--master-port=0"}); }), Catch::Contains("2 nodes must agree"));
}

TEST_CASE("cluster plan: a number without a count waits for what the cluster says of that") {
    CHECK(planned({"--node-rank=0"}).nnodes == 2);
    CHECK(planned({"--node-rank=1"}).node_rank == 1);
    // Whose numbers they are the list does not know.
    CHECK(planned({"--node-rank=1"}).part.host_list.hosts.empty());
    CHECK_THAT(plan_refusal([] { planned({"--node-rank=2"}); }),
               Catch::StartsWith(
                   "this is node 2 by --node-rank, which must be less than the number of nodes, 2 by "));
    for (const ClusterWords& words :
         {ClusterWords{"--node-rank=1"}, ClusterWords{"--node-rank=1", "--scheduler=none"}}) {
        CHECK_THAT(plan_refusal([&] { planned(words, {}); }),
                   Catch::StartsWith("--node-rank 1: must be less than --nnodes, which is 1"));
    }
}

TEST_CASE("cluster plan: GPUs that are not those which the scheduler has given are one line") {
    const auto remarks = [](const ClusterWords& words, int found, const Environment& environment) {
        NodeFacts facts;
        facts.host_name = "n2";
        facts.environment = environment;
        facts.hardware.devices.count = found;
        facts.hardware.devices.source = "/dev/nvidia*";
        return resolve_launch(planned(words, environment), facts).placement_remarks;
    };
    const Environment four = with_variable(kStepOfTwo, "SLURM_GPUS_ON_NODE", "4");
    const ClusterWords words{"--nproc-per-node=1", "--gpu-bind=none"};
    CHECK(remarks(words, 1, four) ==
          std::vector<std::string>{"SLURM_GPUS_ON_NODE=4, but n2 has 1 GPU for this job (/dev/nvidia*)"});
    CHECK(remarks(words, 4, four).empty());
    CHECK(remarks(words, 1, kStepOfTwo).empty());
    CHECK(remarks({"--nproc-per-node=1", "--gpu-bind=none", "--scheduler=none"}, 1, four).empty());
}

TEST_CASE("cluster plan: one node is one node where the user says so") {
    for (const char* word : {"--standalone", "--nnodes=1", "--scheduler=none"}) {
        const JobPlan plan = planned({word});
        CAPTURE(word);
        CHECK(plan.nnodes == 1);
        CHECK_FALSE(plan.part.is_derived);
        CHECK_FALSE(std::holds_alternative<ForEachGpu>(plan.nproc_per_node));
        CHECK(plan.run_id == "none");
    }
    CHECK_FALSE(std::holds_alternative<ForEachGpu>(planned({"--like-torchrun"}).nproc_per_node));
}

TEST_CASE("cluster plan: an endpoint of port 0 is one node's, whatever the environment says of others") {
    const Environment shell = {
        {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29600"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}};
    const Environment allocation = {
        {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
    for (const Environment& environment : {shell, allocation, kStepOfTwo}) {
        for (const char* backend : {"--rdzv-backend=c10d", "--rdzv-backend=static"}) {
            const JobPlan plan = planned({backend, "--rdzv-endpoint=localhost:0"}, environment);
            CHECK(plan.nnodes == 1);
            CHECK_FALSE(plan.starts_hosts());
            CHECK_FALSE(plan.part.is_derived);
        }
    }
}

TEST_CASE("cluster plan: as many nodes as the allocation has are started, unless more is said of them") {
    const Environment allocation = {
        {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_JOB_NODELIST", "n[2-4]"}};
    const auto starts = [&](const ClusterWords& words) { return planned(words, allocation).starts_hosts(); };
    CHECK(starts({}));
    CHECK(starts({"--nnodes=3"}));
    CHECK(starts({"--nnodes=2:3"}));
    CHECK_FALSE(starts({"--nnodes=2"}));
    CHECK_FALSE(starts({"--nnodes=3", "--node-rank=0"}));
    CHECK_FALSE(starts({"--nnodes=3", "--master-addr=n2"}));
    CHECK_FALSE(starts({"--nnodes=3", "--rdzv-endpoint=n2:7"}));
    CHECK_FALSE(starts({"--nnodes=3", "--rdzv-backend=c10d", "--rdzv-endpoint=n2:7"}));
}

TEST_CASE("cluster plan: with c10d the user says how many nodes there are") {
    const ClusterWords c10d{"--rdzv-backend=c10d", "--rdzv-endpoint=n1:7"};
    CHECK_THAT(plan_refusal([&] { planned(c10d); }), Catch::Contains("--rdzv-backend c10d: needs --nnodes") &&
                                                         Catch::Contains("SLURM_STEP_NUM_NODES says is 2"));
    ClusterWords said = c10d;
    said.emplace_back("--nnodes=2");
    CHECK(planned(said).node_rank == kUnnumbered);
    CHECK_FALSE(planned(said).part.is_derived);
}

TEST_CASE("cluster plan: a value that the option would not take is refused by its variable") {
    const Environment bare = {
        {"MASTER_ADDR", "no host"}, {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"NPROC_PER_NODE", "8"}};
    CHECK_THAT(plan_refusal([&] { planned({}, bare); }),
               Catch::Contains("MASTER_ADDR: 'no host' is no name of a host; --scheduler none"));
    Environment many = with_variable(bare, "MASTER_ADDR", "h");
    CHECK(planned({}, many).nproc_per_node == WorkerCount(8));
    many["NPROC_PER_NODE"] = "eight";
    CHECK_THAT(plan_refusal([&] { planned({}, many); }), Catch::StartsWith("NPROC_PER_NODE=eight: "));
    CHECK(planned({"--nproc-per-node=2"}, many).nproc_per_node == WorkerCount(2));
}

TEST_CASE("cluster plan: an error names what says otherwise") {
    Environment four = with_variable(kStepOfTwo, "SLURM_STEP_NUM_NODES", "4");
    four["SLURM_STEP_NUM_TASKS"] = "4";
    four["SLURM_STEP_NODELIST"] = "n[1-4]";
    four["SLURM_NODEID"] = "3";
    const std::string why = plan_refusal([&] {
        plan_job(parse_command_line({"--nnodes=2", "p"}, four),
                 {.environment = four, .host_name = "n4", .addresses = {}, .files = {}});
    });
    CHECK(why ==
          "this is node 3 by SLURM_NODEID, which must be less than the number of nodes, 2 by --nnodes "
          "(SLURM_STEP_NUM_NODES says 4)");
}

TEST_CASE("cluster plan: a job's id is fit for a rendezvous") {
    Environment long_id = kStepOfTwo;
    long_id["SLURM_JOB_ID"] = std::string(400, 'x');
    CHECK(planned({}, long_id).run_id.size() == 128);
    long_id["SLURM_JOB_ID"] = "a b/c\n";
    CHECK(planned({}, long_id).run_id == "slurm-a-b-c-.0");
}

TEST_CASE("adapted task: torchrun's variables of the launcher's") {
    const Environment tasks = {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NUM_TASKS", "8"},
                               {"SLURM_NODEID", "1"},         {"SLURM_PROCID", "5"},
                               {"SLURM_LOCALID", "1"},        {"SLURM_JOB_ID", "7"}};
    CHECK_THAT(plan_refusal([&] { task_variables(planned({"--adapt"}, tasks)); }),
               Catch::Contains("--master-addr"));
    const Environment variables =
        task_variables(planned({"--adapt", "--master-addr=a", "--master-port=9"}, tasks));
    CHECK(variables == Environment{{"RANK", "5"},
                                   {"WORLD_SIZE", "8"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "4"},
                                   {"GROUP_RANK", "1"},
                                   {"MASTER_ADDR", "a"},
                                   {"MASTER_PORT", "9"}});
    CHECK(local_rank_of(variables) == 1);
    // In blocks of four, or nobody knows in which.
    const auto group = [](const char* rank, const char* local_rank) {
        const Environment mpi = {{"OMPI_COMM_WORLD_SIZE", "8"},
                                 {"OMPI_COMM_WORLD_RANK", rank},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", local_rank}};
        const Environment made = task_variables(planned({"--adapt", "--master-addr=a"}, mpi));
        const auto entry = made.find("GROUP_RANK");
        return entry == made.end() ? std::string("-") : entry->second;
    };
    CHECK(group("5", "1") == "1");
    CHECK(group("3", "1") == "-");
    const Environment bare = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "8"}, {"WORLD_SIZE", "4"},
                              {"RANK", "3"},        {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "2"}};
    CHECK(task_variables(planned({"--adapt"}, bare)).at("MASTER_ADDR") == "h");
    Environment beyond = bare;
    beyond["MASTER_PORT"] = "99999";
    CHECK_THAT(plan_refusal([&] { task_variables(planned({"--adapt"}, beyond)); }),
               Catch::Contains("MASTER_PORT=99999: "));
    CHECK(task_variables(planned({"--adapt", "--master-port=9"}, beyond)).at("MASTER_PORT") == "9");
    CHECK_THAT(plan_refusal([&] { task_variables(planned({"--adapt"}, {})); }),
               Catch::Contains("no process launcher"));
    CHECK_THAT(plan_refusal([&] {
                   task_variables(planned({"--adapt"}, {{"PMI_SIZE", "2"}}));
               }),
               Catch::Contains("does not tell this task's number"));
}

}  // namespace ddprun
