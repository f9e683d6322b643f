// What --explain says of a launch: sources, rivals, what workers get.
#include <algorithm>
#include <boost/json.hpp>

#include "apps/ddprun/modes/explanation.hpp"
#include "apps/ddprun/modes/worker_environment.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/cluster/cluster_lines.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "tests/apps/step_of_two.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

const Environment kStep = with_variable(kStepOfTwo, "SLURM_NNODES", "4");

NodeFacts explained_facts(const Environment& environment) {
    NodeFacts facts;
    facts.environment = environment;
    facts.fresh_id = "fresh";
    facts.hardware.devices = find_devices(environment, {.gpus = {}, .source = "/dev/nvidia*"});
    facts.files["./train"] = {.is_binary = true, .real_name = "train"};
    facts.hardware.usable_cpus = 4;
    facts.addresses = {{"lo", "127.0.0.1", true}, {"eth7", "10.0.0.2", false}};
    return facts;
}

Explanation explained(const std::vector<std::string>& words, const Environment& environment = {}) {
    const NodeFacts facts = explained_facts(environment);
    const Said line = parse_command_line(words, environment);
    Explanation explanation{.host = "n2", .options = line.told};
    explanation.table = table_of(
        line, {.environment = environment, .host_name = "n2", .addresses = {"10.0.0.2"}, .files = {}});
    try {
        const JobPlan plan = plan_job(line, explanation.table);
        const LaunchOptions options = resolve_launch(plan, facts);
        explanation.values = launch_values(plan, options, facts);
        explanation.workers = explained_workers(options, environment, "n2");
        std::vector<std::vector<EnvironmentChange>*> lists;
        for (ExplainedWorker& worker : explanation.workers) lists.push_back(&worker.environment);
        explanation.changes = take_common(lists);
    } catch (const UsageError& error) {
        explanation.refusal = error.what();
    }
    return explanation;
}

// "VALUE by SOURCE" of one value.
std::string value_named(const Explanation& explanation, const std::string& name) {
    for (const LaunchValue& value : explanation.values) {
        if (value.name == name) return value.value + " by " + value.source;
    }
    return "missing";
}

std::string change_named(const std::vector<EnvironmentChange>& changes, const std::string& name) {
    for (const EnvironmentChange& change : changes) {
        if (change.name == name) return to_text(change);
    }
    return "unchanged";
}

}  // namespace

TEST_CASE("explain: each value of the launch with its source") {
    const struct {
        std::vector<std::string> words;
        Environment environment;
        std::string name, value;
    } rows[] = {
        {{}, {}, "nodes", "1 by no sign of more"},
        {{}, {}, "node", "0 by default"},
        {{}, {}, "master address", "127.0.0.1 by default"},
        {{}, {}, "master port", "a free one by default"},
        {{}, {}, "job id", "none by default"},
        {{}, {}, "grace", "30 s by default"},
        {{}, {}, "listens on", "loopback by default"},
        {{}, {}, "GPUs", "0 by /dev/nvidia*"},
        {{}, {}, "CPUs", "4 by affinity and quota of this process"},
        {{"--port-range=40-49"}, {}, "master port", "a free one of 40-49 by --port-range"},
        {{"--port-range=40-49", "--master-port=7"}, {}, "master port", "7 by --master-port"},
        {{}, {}, "ports of other listeners", "free ones of the system's by default"},
        {{},
         {{"DDPRUN_PORT_RANGE", "40-49"}},
         "ports of other listeners",
         "40-49 by DDPRUN_PORT_RANGE (--port-range)"},
        {{"--port-range=40-40"}, kStep, "master port", "40 by the job's id"},
        {{}, kStep, "own address", "the one that reaches node 0 by default"},
        {{"--net=10.0.0.0/8"}, kStep, "own address", "10.0.0.2 (eth7) by --net"},
        {{}, {}, "own address", "missing"},
        {{"--nproc-per-node=3"}, {}, "workers here", "3 by --nproc-per-node"},
        {{}, {{"PET_NPROC_PER_NODE", "3"}}, "workers here", "3 by PET_NPROC_PER_NODE (--nproc-per-node)"},
        {{"--nproc-per-node=cpu"}, {}, "workers here", "4 by --nproc-per-node"},
        {{"--grace=15"}, {}, "grace", "15 s by --shutdown-timeout"},
        {{"--join-timeout=15"}, {}, "join timeout", "15 s by --join-timeout"},
        {{"--rdzv-conf=join_timeout=7"}, {}, "join timeout", "7 s by --rdzv-conf"},
        {{"--log-dir=l"}, {}, "log folder", "l by --log-dir"},
        {{}, {{"DDPRUN_LOG_DIR", "/dev/null"}}, "log folder", "none by DDPRUN_LOG_DIR (--log-dir)"},
        {{}, kStep, "nodes", "2 by SLURM_STEP_NUM_NODES"},
        {{}, kStep, "node", "1 by SLURM_NODEID"},
        {{}, kStep, "job id", "slurm-7.0 by SLURM_JOB_ID, SLURM_STEP_ID"},
        {{"--rdzv-id=mine"}, kStep, "job id", "mine by --rdzv-id"},
        {{}, kStep, "master address", "n1 by SLURM_STEP_NODELIST"},
        {{"--master-addr=m"}, kStep, "master address", "m by --master-addr"},
        {{"--master-addr=m"}, kStep, "master port", "29500 by default"},
        {{"--master-port=7"}, kStep, "master port", "7 by --master-port"},
        {{}, kStep, "workers here", "1 by a worker for each GPU"},
        {{"--nnodes=2:4", "--spares=1"}, kStep, "nodes", "2 to 4, 1 of them spare by --nnodes"},
        {{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a:7"},
         {},
         "master port",
         "7 by --rdzv-endpoint"},
        {{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a:7"},
         {},
         "node",
         "numbered when the nodes meet by --rdzv-backend"},
        {{"--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=e:7"}, {}, "etcd", "e:7 by --rdzv-endpoint"},
        {{"--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=e:7"},
         {},
         "hosted by",
         "the agent that etcd elects by --rdzv-backend"},
    };
    for (const auto& row : rows) {
        std::vector<std::string> words = row.words;
        words.emplace_back("p");
        INFO(row.name << " of " << words.front());
        const Explanation explanation = explained(words, row.environment);
        CHECK(explanation.refusal.empty());
        CHECK(value_named(explanation, row.name) == row.value);
    }
    const std::string port = value_named(explained({"p"}, kStep), "master port");
    CHECK_THAT(port, Catch::StartsWith(std::to_string(port_of_job("slurm-7.0")) + " to ") &&
                         Catch::Contains("by the job's id"));
}

TEST_CASE("explain: --standalone makes a job's id only where it is on") {
    const auto id = [](const std::vector<std::string>& words, const char* standalone) {
        return value_named(explained(words, {{"DDPRUN_STANDALONE", standalone}}), "job id");
    };
    CHECK(id({"--rdzv-id=mine", "p"}, "1") == "fresh by DDPRUN_STANDALONE (--standalone)");
    CHECK(id({"--rdzv-id=mine", "p"}, "0") == "mine by --rdzv-id");
    CHECK(id({"p"}, "0") == "none by default");
}

TEST_CASE("explain: which GPUs a worker sees, and by what") {
    const auto seen = [](std::vector<std::string> words, const char* program) {
        words.emplace_back(program);
        return value_named(explained(words, {{"CUDA_VISIBLE_DEVICES", "4,5"}}), "a worker sees");
    };
    CHECK(value_named(explained({"train"}), "a worker sees") == "missing");
    CHECK(seen({}, "train") == "all of them by its kind of program");
    CHECK(seen({}, "./train") == "its own GPU by its kind of program");
    CHECK(seen({"--gpu-bind=single"}, "train") == "its own GPU by --gpu-bind");
    CHECK(seen({"--virtual-local-rank"}, "train") == "its own GPU by --virtual-local-rank");
    CHECK(seen({"--like-torchrun"}, "./train") == "all of them by --like-torchrun");
}

TEST_CASE("explain: what workers have over the inherited environment") {
    const Environment inherited{{"HOME", "/h"},
                                {"RANK", "0"},
                                {"WORLD_SIZE", "9"},
                                {"DDPRUN_NPROC_PER_NODE", "2"},
                                {"MASTER_PORT", "1"}};
    const Explanation alone = explained({"--scheduler=none", "--gpu-bind=none", "p"}, inherited);
    REQUIRE(alone.workers.size() == 2);
    CHECK(change_named(alone.changes, "HOME") == "unchanged");
    CHECK(change_named(alone.changes, "WORLD_SIZE") == "WORLD_SIZE=2");
    CHECK(change_named(alone.changes, "MASTER_PORT") == "MASTER_PORT: a free port");
    CHECK(change_named(alone.changes, "DDPRUN_NPROC_PER_NODE") == "DDPRUN_NPROC_PER_NODE is taken out");
    CHECK(change_named(alone.changes, "DDPRUN_MESH_KEY") == "DDPRUN_MESH_KEY: a key of the round");
    CHECK(change_named(alone.workers[0].environment, "RANK") == "unchanged");
    CHECK(change_named(alone.workers[1].environment, "RANK") == "RANK=1");
    CHECK(alone.workers[1].rank == 1);
    const Explanation step = explained({"p"}, kStep);
    REQUIRE(step.workers.size() == 1);
    CHECK_FALSE(step.workers[0].rank);
    CHECK(change_named(step.changes, "RANK") == "RANK: known when the nodes have met");
    CHECK(change_named(step.changes, "MASTER_ADDR") == "MASTER_ADDR=n1");
    CHECK_THAT(change_named(step.changes, "NCCL_SOCKET_IFNAME"), Catch::Contains("the interface"));
    const Explanation by_net = explained({"--net=10.0.0.0/8", "p"}, kStep);
    CHECK(change_named(by_net.changes, "NCCL_SOCKET_IFNAME") == "NCCL_SOCKET_IFNAME==eth7");
    CHECK(change_named(by_net.changes, "GLOO_SOCKET_IFNAME") == "GLOO_SOCKET_IFNAME=eth7");
    CHECK(change_named(by_net.changes, "DDPRUN_NODE_ADDR") == "DDPRUN_NODE_ADDR=10.0.0.2");
    CHECK(change_named(explained({"--port-range=40-49", "p"}).changes, "MASTER_PORT") ==
          "MASTER_PORT: a free port of 40-49");
    const Explanation cached = explained(
        {"--local-cache", "p"}, {{"TRITON_CACHE_DIR", "/t"}, {"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}});
    CHECK(change_named(cached.changes, "CUDA_CACHE_PATH") == "CUDA_CACHE_PATH: a folder made at the start");
    CHECK(change_named(cached.changes, "TRITON_CACHE_DIR") == "unchanged");
    CHECK(change_named(cached.changes, "TORCHELASTIC_TIMER_FILE") ==
          "TORCHELASTIC_TIMER_FILE: a pipe made at the start");
    CHECK(change_named(
              explained({"p"}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", "/t/p"}})
                  .changes,
              "TORCHELASTIC_TIMER_FILE") ==
          "TORCHELASTIC_TIMER_FILE: /t/p, or a new pipe where another launcher reads that one");
    Environment chosen = kStep;
    chosen["NCCL_SOCKET_IFNAME"] = "eth7";
    CHECK(change_named(explained({"p"}, chosen).changes, "NCCL_SOCKET_IFNAME") == "unchanged");
}

TEST_CASE("explain: a change's text shows no secret and moves no cursor") {
    CHECK(to_text({"A", "b\x1b[2Jc", ""}) == "A=bc");
    CHECK(to_text({"MY_TOKEN", "hidden", ""}) == "MY_TOKEN=(not shown)");
    CHECK(to_text({"OPTIONS", "--token hidden", ""}) == "OPTIONS=--token (not shown)");
    CHECK(to_text({"KEY", "a hidden", ""}) == "KEY=(not shown)");
    CHECK(to_text({"A", std::nullopt, ""}) == "A is taken out");
    CHECK(changes_between({{"A", "1"}, {"B", "2"}}, {{"B", "3"}, {"C", ""}}) ==
          std::vector<EnvironmentChange>{{"A", std::nullopt, ""}, {"B", "3", ""}, {"C", "", ""}});
    std::vector<EnvironmentChange> one{{"A", "1", ""}, {"B", "2", ""}}, other{{"A", "1", ""}, {"B", "3", ""}};
    CHECK(take_common({&one, &other}) == std::vector<EnvironmentChange>{{"A", "1", ""}});
    CHECK(one == std::vector<EnvironmentChange>{{"B", "2", ""}});
    CHECK(other == std::vector<EnvironmentChange>{{"B", "3", ""}});
    CHECK(take_common({}).empty());
}

TEST_CASE("explain: an option shows no secret, and a program's words are its own") {
    CHECK(shown_option_value("--env", "MY_TOKEN=a=b") == "MY_TOKEN=(not shown)");
    CHECK(shown_option_value("--env", "A=MY_TOKEN=b") == "A=MY_TOKEN=(not shown)");
    CHECK(shown_option_value("--env-rank", "local=0:API_KEY=k") == "local=0:API_KEY=(not shown)");
    CHECK(shown_option_value("--env-rank", "0:A=k") == "0:A=k");
}

TEST_CASE("explain: hosts that are named are the nodes, whatever is around") {
    const auto told = [](const std::vector<std::string>& words, const Environment& environment = {}) {
        const Said line = parse_command_line(words, environment);
        ClusterTable table =
            table_of(line, {.environment = environment, .host_name = "n2", .addresses = {}, .files = {}});
        forget_one_node(table);
        std::string text;
        for (const std::string& told : cluster_lines(table)) text += told + "\n";
        CHECK_THAT(
            text, Catch::StartsWith("situation: one process on each node\n") && !Catch::Contains("nodes: 1"));
        tell_hosts(table, line,
                   resolve_start(JobPlan(line), {.directory = "/", .host_file_text = "a slots=2\nb\n"}));
        text.clear();
        for (const std::string& told : cluster_lines(table)) text += told + "\n";
        return text;
    };
    CHECK(told({"--hosts=u@a:2,b", "--rsh=rsh", "p"}) ==
          "situation: one process on each node\n"
          "nodes: 2 by --hosts (the command line)\n"
          "master address: a by --hosts (the command line)\n"
          "own name: n2 by this machine (assumed)\n"
          "hosts: a:2,b by --hosts\n"
          "agents: started from here, by rsh\n");
    CHECK_THAT(told({"--nnodes=1:2", "--master-addr=m", "p"}, {{"DDPRUN_HOSTFILE", "f"}}),
               Catch::Contains("nodes: 2 by --nnodes (the command line)\n"
                               "master address: m by --master-addr (the command line)\n") &&
                   Catch::Contains("hosts: a:2,b by DDPRUN_HOSTFILE\n"));
}

TEST_CASE("explain: the text names the rivals, and the refusal once") {
    Environment environment = kStep;
    environment["PET_ROLE"] = "c";
    environment["DDPRUN_ROLE"] = "b";
    const std::string text = explanation_text(explained({"--role=a", "--explain", "p", "x y"}, environment));
    for (const char* part :
         {"nodes: 2 by SLURM_STEP_NUM_NODES (a process launcher); not 4 by SLURM_NNODES (an allocation)\n",
          "  --role a by the command line; not b by DDPRUN_ROLE; not c by PET_ROLE\n", "  runs: p x y\n",
          "  nodes: 2 (SLURM_STEP_NUM_NODES)\n"}) {
        CHECK_THAT(text, Catch::Contains(part));
    }
    CHECK_THAT(text, !Catch::Contains("refused"));
    environment.erase("SLURM_STEP_NODELIST");
    const auto refusals_in = [](const std::string& whole) {
        int count = 0;
        for (auto at = whole.find("refused: "); at != whole.npos; at = whole.find("refused: ", at + 1))
            ++count;
        return count;
    };
    const std::string refused = explanation_text(explained({"p"}, environment));
    CHECK(refusals_in(refused) == 1);
    CHECK_THAT(refused, Catch::Contains("SLURM_STEP_NODELIST is not set") && !Catch::Contains("runs:"));
    const std::string later = explanation_text(explained({"--nproc-per-node=gpu", "p"}));
    CHECK_THAT(later, Catch::Contains("\nrefused: --nproc-per-node gpu: this node has no GPU"));
    CHECK(refusals_in(later) == 1);
}

TEST_CASE("explain: the JSON says the same") {
    Environment environment = kStep;
    environment["PET_ROLE"] = "c\xff";
    const json::value root = json::parse(explanation_json(explained({"--role=a", "p"}, environment)));
    CHECK(root.at("refused").is_null());
    CHECK(root.at("host") == "n2");
    CHECK(root.at("cluster").at("family") == "a Slurm step");
    const json::value& nodes = root.at("cluster").at("values").at(0);
    CHECK(nodes.at("name") == "nodes");
    CHECK(nodes.at("value") == "2");
    CHECK(nodes.at("source") == "SLURM_STEP_NUM_NODES");
    CHECK(nodes.at("rivals").at(0).at("value") == "4");
    CHECK(root.at("cluster").at("hosts").at(1).at("name") == "n2");
    const json::value& role = root.at("options").at(0);
    CHECK(role.at("name") == "--role");
    CHECK(role.at("source") == "command line");
    CHECK(role.at("rivals").at(0).at("source_name") == "PET_ROLE");
    CHECK(role.at("rivals").at(0).at("values").at(0) == "c\uFFFD");
    const json::value& worker = root.at("workers").at(0);
    CHECK(worker.at("rank").is_null());
    CHECK(worker.at("cpus").is_null());
    CHECK(worker.at("command").at(0) == "p");
    environment.erase("SLURM_STEP_NODELIST");
    const json::value refused = json::parse(explanation_json(explained({"p"}, environment)));
    CHECK_THAT(std::string(refused.at("refused").as_string()),
               Catch::Contains("SLURM_STEP_NODELIST is not set"));
    CHECK(refused.at("workers").as_array().empty());
    CHECK(json::parse(workers_json(explained({"--nproc-per-node=2", "p"}).workers)).as_array().size() == 2);
}

}  // namespace ddprun
