#include <tuple>

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/job_plan.hpp"
#include "apps/ddprun/plan/job_start.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/features/watchdog.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

StarterFacts own_facts() {
    return {.environment = {{"A", "1"}, {"DISPLAY", ":0"}},
            .directory = "/here",
            .host_name = "login.example",
            .addresses = {"10.0.0.9"},
            .host_file_text = "a slots=2\nb slots=3\n"};
}

StarterOptions start_of(Words words, const Environment& environment = {}) {
    words.insert(words.end(), {"--", "train", "--x"});
    return resolve_start(JobPlan(parse_command_line(words, environment)), own_facts());
}

// Empty where it is not.
std::string start_refused(const Words& words, const Environment& environment = {}) {
    try {
        start_of(words, environment);
    } catch (const UsageError& error) {
        return error.what();
    }
    return {};
}

// The plan of an agent that a starter has started, on a host whose environment says things of its own.
JobPlan started_agent(const Words& words, const Starter& starter = {},
                      const Environment& environment = {{"DDPRUN_HOSTS", "a,b"}}) {
    return plan_job(parse_command_line(words, environment, "ddprun", {}, starter), ClusterView{});
}

}  // namespace

TEST_CASE("start: hosts become nodes in their order, with the first one's name for all", "[start]") {
    const StarterOptions options = start_of({"--hosts=u@a,b", "--nproc_per_node", "4", "-r", "3"});
    const StartPlan& plan = options.plan;
    REQUIRE(plan.nodes.size() == 2);
    CHECK(plan.nodes[0] == StartNode{0, "u@a", -1, "", false});
    CHECK(plan.nodes[1] == StartNode{1, "b", -1, "", false});
    CHECK(plan.master_addr == "a");
    CHECK(plan.master_port == 0);
    CHECK(plan.nnodes == "2");
    CHECK(plan.directory == "/here");
    CHECK(plan.environment == Environment{{"A", "1"}});
    CHECK(plan.options == Words{"--nproc-per-node=4", "-r3"});
    CHECK(plan.program == Words{"train", "--x"});
    CHECK((plan.secret.starts_with("ddprun-") && plan.secret.size() == 7 + 64 + 8));
    CHECK(plan.secret != start_of({"--hosts=a,b"}).plan.secret);
    CHECK(plan.ships);
    CHECK(options.terms.least == 2);
}

TEST_CASE("start: nobody's files are used on hosts only where they are used here", "[start]") {
    CHECK(start_of({"--hosts=a,b"}).plan.owners.empty());
}

TEST_CASE("start: hosts without a worker are refused by the words that name them", "[start]") {
    CHECK(start_refused({"--hosts=node1:0"}) ==
          "--hosts node1:0: nothing would run; write node1:8 for eight workers there");
    CHECK(start_refused({"--hosts=a:0,b:1"}).empty());
}

TEST_CASE("start: one of several tasks does not start all hosts, unless an allocation asks for that",
          "[start]") {
    StarterFacts facts = own_facts();
    facts.one_of_several = "this is task 0 of 2 of an MPI job (PMI_SIZE=2)";
    CHECK_THROWS_WITH(
        resolve_start(JobPlan(parse_command_line({"--hosts=a,b", "train"}, {})), facts),
        Catch::StartsWith("--hosts: this is task 0 of 2 of an MPI job (PMI_SIZE=2), and each "));
    JobPart part;
    part.allocation = Allocation{.hosts = {{"a", 0}, {"b", 0}}, .reached_by = "srun"};
    CHECK(resolve_start(JobPlan(parse_command_line({"train"}, {}), part), facts).plan.nodes.size() == 2);
}

TEST_CASE("start: agents are told that the store is to be sealed, where nobody has said how it is reached",
          "[start]") {
    const auto options = [](const Words& words, bool seals_store) {
        StarterFacts facts = own_facts();
        facts.seals_store = seals_store;
        Words all{"--hosts=a,b"};
        all.insert(all.end(), words.begin(), words.end());
        all.insert(all.end(), {"--", "train"});
        return resolve_start(JobPlan(parse_command_line(all, {})), facts).plan.options;
    };
    CHECK(options({}, false).empty());
    CHECK(options({}, true) == Words{"--store=door"});
    CHECK(options({"--store=direct"}, true) == Words{"--store=direct"});
    CHECK(options({"--store=auto"}, true).back() == "--store=door");
}

TEST_CASE("start: words that only the starter has a use for stay with it", "[start]") {
    const StarterOptions options =
        start_of({"--hosts=a,b", "--rsh=rsh -x", "--fan-out=4", "--no-ship", "--include=a", "--env", "K=V",
                  "--master-port=29500", "--auth=off", "--clean-env", "--explain", "--dry-run", "--json"});
    CHECK(options.plan.options == Words{"--env=K=V", "--master-port=29500", "--auth=off", "--clean-env"});
    CHECK(options.plan.rsh == Words{"rsh", "-x"});
    const Words ssh = start_of({"--hosts=a", "--rsh=/usr/bin/ssh -p 2222"}).plan.rsh;
    CHECK(Words(ssh.begin(), ssh.begin() + 5) == Words{"/usr/bin/ssh", "-p", "2222", "-o", "BatchMode=yes"});
    CHECK(options.plan.fan_out == 4);
    CHECK_FALSE(options.plan.ships);
    CHECK(options.plan.master_port == 29500);
    CHECK(options.plan.environment.empty());
    CHECK(options.plan.secret.empty());
}

TEST_CASE("start: this machine is known by its names and addresses, unless a remote shell is named",
          "[start]") {
    const auto here = [](const Words& words) {
        std::string text;
        for (const StartNode& node : start_of(words).plan.nodes) text += node.is_here ? '1' : '0';
        return text;
    };
    CHECK(here({"--hosts=login,b,10.0.0.9,u@login"}) == "1010");
    CHECK(here({"--hosts=LOGIN.example"}) == "1");
    CHECK(here({"--hosts=localhost"}) == "1");
    CHECK(here({"--hosts=login,b", "--rsh=ssh"}) == "00");
    CHECK(start_refused({"--hosts=localhost,b"}) ==
          "--hosts: localhost is the first of the hosts, and b cannot reach it by that name; give its real "
          "one, or "
          "--master-addr");
    CHECK(start_refused({"--hosts=127.0.0.1,b"}).find("--master-addr") != std::string::npos);
    CHECK(start_of({"--hosts=localhost,b", "--master-addr=login"}).plan.master_addr == "login");
}

TEST_CASE("start: numbers of workers come from the list, or from the command line where that is no list's",
          "[start]") {
    const auto workers = [](const Words& words, const Environment& environment = {}) {
        std::vector<int> counts;
        for (const StartNode& node : start_of(words, environment).plan.nodes) counts.push_back(node.workers);
        return counts;
    };
    using Counts = std::vector<int>;
    CHECK(workers({"--hosts=a:2,b"}) == Counts{2, -1});
    CHECK(workers({"--hosts=a:2,b", "--nproc-per-node=2"}) == Counts{2, -1});
    CHECK(workers({"--hosts=a:2"}, {{"PET_NPROC_PER_NODE", "8"}}) == Counts{2});
    CHECK(workers({"--hostfile=f"}) == Counts{2, 3});
    CHECK(workers({"--hostfile=f", "--nproc-per-node=1"}) == Counts{-1, -1});
    CHECK(start_refused({"--hosts=a:2", "--nproc-per-node=3"}) ==
          "--nproc-per-node 3: contradicts --hosts, by which a has 2");
    const auto chosen = start_of({"--hostfile=f", "--exclude=b:1"}).plan.nodes;
    CHECK(chosen[1] == StartNode{1, "b", 2, "0,2", false});
}

TEST_CASE("start: --nnodes may say how few will do, and nothing else", "[start]") {
    CHECK(start_of({"--hosts=a,b,c", "--nnodes=2:3"}).plan.nnodes == "2:3");
    CHECK(start_of({"--hosts=a,b,c", "--nnodes=2:3"}).terms.least == 2);
    CHECK(start_of({"--hosts=a,b", "--nnodes=2"}).plan.nnodes == "2");
    CHECK(start_refused({"--hosts=a,b", "--nnodes=1:3"}) ==
          "--nnodes: 1:3 contradicts --hosts, which names 2");
    CHECK(start_refused({}, {{"DDPRUN_HOSTS", "a,b"}, {"PET_NNODES", "3"}}) ==
          "--nnodes: 3 contradicts --hosts, which names 2 (from PET_NNODES)");
}

TEST_CASE("start: of hosts and what cannot be said with them the one from the stronger place counts",
          "[start]") {
    const auto weaker = [](Words words, const Environment& environment) {
        words.insert(words.end(), {"--verbose", "p"});
        const std::string remark = parse_command_line(words, environment).remarks.at(0);
        return remark.substr(0, remark.find(' '));
    };
    CHECK(weaker({"--hosts=a,b"}, {{"PET_NNODES", "3"}}) == "--nnodes");
    CHECK(weaker({"--nnodes=3"}, {{"DDPRUN_HOSTS", "a,b"}}) == "--hosts");
    CHECK(weaker({"--hosts=a"}, {{"PET_NODE_RANK", "0"}}) == "--node-rank");
    CHECK(weaker({"--standalone"}, {{"DDPRUN_HOSTS", "a"}}) == "--hosts");
    CHECK(weaker({"--hosts=a"}, {{"PET_RDZV_BACKEND", "c10d"}}) == "--rdzv-backend");
    CHECK(weaker({"--hosts=a"}, {{"DDPRUN_HOSTFILE", "f"}}) == "--hostfile");
    CHECK(weaker({"--hosts=a", "--exclude=b"}, {{"DDPRUN_INCLUDE", "a"}}) == "--include");
    CHECK(start_of({"--nproc-per-node=3"}, {{"DDPRUN_HOSTS", "a:2"}}).plan.nodes.front().workers == -1);
}

TEST_CASE("start: what cannot be said of hosts that are started", "[start]") {
    for (const Words& words : {Words{"--node-rank=0"}, Words{"--standalone"}, Words{"--rdzv-endpoint=h:1"},
                               Words{"--local-addr=h"}, Words{"--secret-file=f"}, Words{"--detach"},
                               Words{"--tty=0"}, Words{"--stdin=0"}}) {
        Words all{"--hosts=a"};
        all.insert(all.end(), words.begin(), words.end());
        const std::string flag = words.front().substr(0, words.front().find('='));
        CHECK(start_refused(all).starts_with(flag + ": contradicts --hosts: "));
    }
    CHECK(start_refused({"--hosts=a", "--hostfile=f"}) ==
          "--hostfile: contradicts --hosts; one of them is enough");
    CHECK(start_refused({"--hosts=a", "--include=a", "--exclude=a"})
              .starts_with("--exclude: contradicts --include"));
    CHECK(start_refused({"--hosts=a", "--rsh="}) == "");
    CHECK(start_refused({"--hosts=a", "--rsh='x"}).starts_with("--rsh 'x: "));
    CHECK(start_refused({"--hosts=a", "--fan-out=1"}).starts_with("--fan-out 1: "));
}

TEST_CASE("start: a selection needs hosts, but for an agent that is started", "[start]") {
    const auto refused = [](const std::vector<std::string>& words, const Environment& environment = {}) {
        try {
            plan_job(parse_command_line(words, environment), ClusterView{});
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(refused({"--include=a", "p"}) ==
          "--include a: no hosts are named here; give --hosts or --hostfile");
    CHECK(refused({"p"}, {{"DDPRUN_EXCLUDE", "b:0"}}) ==
          "--exclude b:0: no hosts are named here; give --hosts or --hostfile (from DDPRUN_EXCLUDE)");
    CHECK_NOTHROW(started_agent({"p"}, {}, {{"DDPRUN_EXCLUDE", "b:0"}}));
}

TEST_CASE("start: the hosts of an allocation are started without a word about them", "[start]") {
    const auto start = [](Words words, Environment environment, const std::string& host) {
        words.insert(words.end(), {"--", "train"});
        environment.insert(
            {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_JOB_NODELIST", "n[1-3]"}});
        const JobPlan plan =
            plan_job(parse_command_line(words, environment),
                     {.environment = environment, .host_name = host, .addresses = {}, .files = {}});
        REQUIRE(plan.starts_hosts());
        return std::pair(resolve_start(plan, own_facts()), plan);
    };
    const Environment counts{{"SLURM_TASKS_PER_NODE", "4(x2),2"}};
    auto [options, line] = start({}, {{"SLURM_TASKS_PER_NODE", "4(x2),2"}, {"SLURMD_NODENAME", "n2"}}, "n2");
    CHECK(options.plan.nodes == std::vector<StartNode>{{0, "n1", -1, "", false, 4},
                                                       {1, "n2", -1, "", true, 4},
                                                       {2, "n3", -1, "", false, 2}});
    CHECK(options.plan.rsh.front() == "srun");
    CHECK(options.plan.own_gpus);
    CHECK(options.plan.nnodes == "3");
    CHECK(options.plan.master_addr == "n1");
    CHECK(options.plan.options == Words{"--rdzv-id=slurm-7"});
    CHECK(start_line(line, options) == "3 nodes by SLURM_JOB_NODELIST, agents started by srun");
    // A shell of salloc on one of the nodes: what it starts itself is none of the job's.
    CHECK_FALSE(start({}, counts, "n2").first.plan.nodes[1].is_here);
    const auto outside = start({"--nproc-per-node=1", "--rdzv-id=mine"}, counts, "login").first.plan;
    CHECK(outside.nodes[1] == StartNode{1, "n2", -1, "", false, 0});
    CHECK(outside.options == Words{"--nproc-per-node=1", "--rdzv-id=mine"});
    std::tie(options, line) = start({"--rsh=ssh", "--include=n3@n1", "--like-torchrun"}, {}, "n1");
    CHECK(options.plan.nodes ==
          std::vector<StartNode>{{0, "n1", -1, "", false, 0}, {1, "n3", -1, "", false, 0}});
    CHECK_FALSE(options.plan.own_gpus);
    CHECK(start_line(line, options) == "2 of 3 nodes by SLURM_JOB_NODELIST, agents started by ssh");
    CHECK(start({}, {}, "n1").first.plan.nodes[2].slots == 1);
    const auto gpus = [&](Environment environment) {
        std::vector<int> asked;
        environment.insert(counts.begin(), counts.end());
        for (const StartNode& node : start({}, environment, "n1").first.plan.nodes)
            asked.push_back(node.gpus);
        return asked;
    };
    using Gpus = std::vector<int>;
    CHECK(gpus({}) == Gpus{0, 0, 0});
    CHECK(gpus({{"SLURM_GPUS", "a100:6,v100:6"}}) == Gpus{4, 4, 4});
    CHECK(gpus({{"SLURM_GPUS", "12"}, {"SLURM_GPUS_PER_NODE", "4"}}) == Gpus{0, 0, 0});
    CHECK(gpus({{"SLURM_GPUS_PER_TASK", "a100:2"}}) == Gpus{8, 8, 4});
}

TEST_CASE("start: an agent that was started is node 0 on any port, or one that says little", "[start]") {
    const JobPlan first = started_agent({"--nnodes=2", "--master-addr=a", "--result-file=r", "p"});
    CHECK_FALSE(first.starts_hosts());
    CHECK(first.master_port == std::uint16_t{0});
    CHECK(first.result_file == "r");
    const JobPlan other = started_agent(
        {"--nnodes=2", "--node-rank=1", "--master-addr=a", "--master-port=7", "--result-file=r", "p"});
    CHECK(other.master_port == std::uint16_t{7});
    CHECK(other.result_file.empty());
    CHECK(other.verbosity == Verbosity::troubles);
    CHECK(other.starter);
    CHECK_FALSE(std::holds_alternative<ForEachGpu>(other.nproc_per_node));
    const JobPlan of_list = started_agent({"--gpu-bind=none", "p"}, {.slots = 3});
    NodeFacts facts;
    CHECK(resolve_launch(of_list, facts).workers.size() == 3);
    facts.hardware.devices.count = 2;
    CHECK(resolve_launch(of_list, facts).workers.size() == 2);
}

TEST_CASE("start: node 0's agent knows the hosts by name, to say who is missing", "[start]") {
    const StartPlan plan = start_of({"--hosts=u@a,b,[fd00::1]"}).plan;
    CHECK(plan.host_names == Words{"a", "b", "fd00::1"});
    CHECK(plan_of_branch(plan, {plan.nodes[0]}).host_names == plan.host_names);
    CHECK(plan_of_branch(plan, {plan.nodes[1], plan.nodes[2]}).host_names.empty());
    const JobPlan job =
        started_agent({"--nnodes=3", "--master-addr=a", "p"}, {.hosts = {"a", "b", "fd00::1"}});
    const LaunchOptions options = resolve_launch(job, NodeFacts{});
    CHECK(options.host_list.hosts == plan.host_names);
    CHECK(options.is_started);
    CHECK(options.master_source == "the first host of --hosts");
    CHECK(as_said(job, "--master-addr a: x") == "--master-addr a: x (from the first host of --hosts)");
    const JobPlan others = started_agent({"--nnodes=2", "--master-addr=a", "p"}, {.hosts = {"a", "b", "c"}});
    CHECK(others.part.host_list.hosts.empty());
    CHECK(others.master_source.empty());
}

TEST_CASE("start: variables are set over those that are inherited, which may be none", "[start]") {
    const auto environment = [](Words words) {
        words.insert(words.end(), {"--nproc-per-node=1", "--no-python", "p"});
        NodeFacts facts;
        facts.environment = {{"A", "1"}, {"PATH", "/p"}, {"TORCHELASTIC_HEALTH_CHECK_PORT", "8080"}};
        Environment found = resolve_launch(JobPlan(parse_command_line(words, {})), facts).environment;
        found.erase("TORCHELASTIC_SIGNALS_TO_HANDLE");
        return found;
    };
    CHECK(environment({"--env=A=2=3", "--env=B="}) == Environment{{"A", "2=3"}, {"B", ""}, {"PATH", "/p"}});
    CHECK(environment({"--clean-env", "--env=B=x"}) == Environment{{"B", "x"}, {"PATH", "/p"}});
    CHECK(environment({"--env=TORCHELASTIC_HEALTH_CHECK_PORT=8081"}) ==
          Environment{{"A", "1"}, {"PATH", "/p"}, {"TORCHELASTIC_HEALTH_CHECK_PORT", "8081"}});
    const Said line = parse_command_line({"--env-rank=local=0:A=1", "--env-rank=0,2-3:B=x:y", "p"}, {});
    REQUIRE(line.rank_variables.size() == 2);
    CHECK(line.rank_variables[0].names(7, 0));
    CHECK_FALSE(line.rank_variables[0].names(0, 1));
    CHECK(line.rank_variables[1].names(3, 9));
    CHECK(line.rank_variables[1].value == "x:y");
}

TEST_CASE("launch: whether there are timers the launcher's own environment says, not the workers'") {
    const auto timers = [](const Environment& environment) {
        NodeFacts facts;
        facts.environment = environment;
        return resolve_launch(JobPlan(parse_command_line({"--clean-env", "--no-python", "p"}, {})), facts)
            .features.of<WatchdogOptions>()
            .place;
    };
    CHECK_FALSE(timers({{"TORCHELASTIC_TIMER_FILE", "/t"}}));
    CHECK(timers({{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}) == "");
    CHECK(timers({{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", "/t"}}) == "/t");
}

}  // namespace ddprun
