// From what was said to the plan: typed values, exclusions decided once, and what each layer adds to the one
// below.
#include "apps/ddprun/modes/launch_values.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/exclusions.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/features/event_log.hpp"
#include "launcher/features/known_job.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/time_limit.hpp"
#include "tests/apps/config_text.hpp"
#include "tests/apps/step_of_two.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using PlanWords = std::vector<std::string>;

JobPlan plan_in(PlanWords words, const Environment& environment) {
    words.emplace_back("p");
    return plan_job(parse_command_line(words, environment),
                    {.environment = environment, .host_name = "n2", .addresses = {}, .files = {}});
}

// What is passed over, each as "OPTION for OPTION"; then "error" where two from one place exclude each other.
PlanWords passed_over(PlanWords words, const Environment& environment) {
    words.insert(words.end(), {"--verbose", "p"});
    PlanWords found;
    try {
        for (const std::string& remark : parse_command_line(words, environment).remarks) {
            const auto since = remark.find("passed over, since ");
            const std::string other = remark.substr(since + std::string("passed over, since ").size());
            found.push_back(remark.substr(0, remark.find_first_of(" :")) + " for " +
                            other.substr(0, other.find(' ')));
        }
    } catch (const UsageError&) {
        found.emplace_back("error");
    }
    return found;
}

NodeFacts node_with(int gpus, int cpus) {
    NodeFacts facts;
    facts.hardware.devices.count = gpus;
    facts.hardware.devices.source = "/dev/nvidia*";
    facts.hardware.usable_cpus = cpus;
    return facts;
}

}  // namespace

TEST_CASE("plan: the count of workers is a value, and counted on the node") {
    const struct {
        WorkerCount count;
        std::string text;
        std::size_t with_gpus, without;  // of 3 GPUs and 5 CPUs, and of these CPUs alone
    } rows[] = {{4, "4", 4, 4},
                {CountedBy::gpu, "gpu", 3, 0},
                {CountedBy::cpu, "cpu", 5, 5},
                {CountedBy::automatic, "auto", 3, 5},
                {ForEachGpu{}, "a worker for each GPU", 3, 1},
                {ForEachGpu{2}, "a worker for each GPU", 3, 2}};
    for (const auto& [count, text, with_gpus, without] : rows) {
        CAPTURE(text);
        CHECK(workers_text(count) == text);
        JobPlan job(parse_command_line({"--gpu-bind=none", "--share-gpus", "p"}, {}));
        job.nproc_per_node = count;
        CHECK(resolve_launch(job, node_with(3, 5)).workers.size() == with_gpus);
        if (without > 0)
            CHECK(resolve_launch(job, node_with(0, 5)).workers.size() == without);
        else
            CHECK_THROWS_AS(resolve_launch(job, node_with(0, 5)), UsageError);
        if (!std::holds_alternative<ForEachGpu>(count)) CHECK(parse_nproc(text) == count);
    }
    for (const char* four : {"4", "+4", " 4", "04"}) CHECK(parse_nproc(four) == WorkerCount(4));
    CHECK(parse_nproc("xpu") == WorkerCount(CountedBy::xpu));
    CHECK_THROWS_AS(parse_nproc("a worker for each GPU"), BadValue);
}

TEST_CASE("plan: an endpoint is taken apart once") {
    const struct {
        std::string text, host;
        int port;  // -1: none
        std::size_t of_etcd;
    } rows[] = {{"h", "h", -1, 1},        {"h:0", "h", 0, 0},   {"h:7", "h", 7, 1},
                {"[::1]:7", "::1", 7, 1}, {"a:5,b", "", -1, 2}, {"a,b", "", -1, 2}};
    for (const auto& [text, host, port, of_etcd] : rows) {
        CAPTURE(text);
        const RdzvEndpoint endpoint = parse_rdzv_endpoint(text);
        CHECK((endpoint.text == text && endpoint.host == host));
        CHECK((endpoint.port ? int{*endpoint.port} : -1) == port);
        CHECK(endpoint.of_etcd.size() == of_etcd);
    }
    CHECK_THROWS_AS(parse_rdzv_endpoint("h:x"), BadValue);
}

TEST_CASE("plan: of options that exclude each other the one from the stronger place counts") {
    const ConfigText file("a\nb slots=2\n");
    const std::string hosts = "--hostfile=" + file.path().string();
    const struct {
        PlanWords words;
        Environment environment;
        PlanWords found;
    } rows[] = {
        {{"--tty=0"}, {{"DDPRUN_STDIN", "0"}}, {"--stdin for --tty"}},
        {{"--stdin=0"}, {{"DDPRUN_TTY", "0"}}, {"--tty for --stdin"}},
        {{"--stdin=none"}, {{"DDPRUN_TTY", "0"}}, {}},
        {{"--run-path", "--no-python"}, {{"DDPRUN_MODULE", "1"}}, {}},
        {{"--no-python"}, {{"DDPRUN_MODULE", "1"}}, {"--module for --no-python"}},
        {{"--detach"}, {{"DDPRUN_TTY", "0"}, {"DDPRUN_STDIN", "0"}}, {"error"}},
        {{"--nnodes=4"}, {{"DDPRUN_SPARES", "1"}}, {"--spares for --nnodes"}},
        {{"--spares=1"}, {{"PET_NNODES", "4"}}, {"error"}},
        {{"--requeue-on=TERM", "--forward=TERM"}, {}, {}},
        {{"--requeue-on=USR1"},
         {{"PET_SIGNALS_TO_HANDLE", "USR1"}},
         {"--signals-to-handle for --requeue-on"}},
        {{"--requeue-on=TERM"}, {{"PET_SIGNALS_TO_HANDLE", "TERM"}}, {"error"}},
        {{"--rdzv-conf=keep_alive_interval=9"}, {{"DDPRUN_JOIN_TIMEOUT", "3"}}, {"error"}},
        {{"--hosts=a,b"}, {{"PET_NNODES", "3"}}, {"--nnodes for --hosts"}},
        {{"--hosts=a,b"}, {{"PET_NNODES", "2"}}, {}},
        {{"--hosts=a,b,c", "--exclude=c"}, {{"PET_NNODES", "2"}}, {}},
        {{"--nnodes=3"}, {{"DDPRUN_HOSTS", "a,b"}}, {"--hosts for --nnodes"}},
        {{hosts}, {{"PET_NNODES", "3"}}, {"--nnodes for --hostfile"}},
        {{hosts}, {{"PET_NNODES", "2"}}, {}},
        {{"--hostfile=/no/such/file"}, {{"PET_NNODES", "2"}}, {}},
        {{"--hosts=a"}, {{"DDPRUN_HOSTFILE", "/no/such/file"}}, {"--hostfile for --hosts"}},
        {{"--hosts=a"},
         {{"DDPRUN_STANDALONE", "1"}, {"PET_RDZV_BACKEND", "c10d"}},
         {"--rdzv-backend for --hosts", "--standalone for --hosts"}},
        {{"--hosts=a", "--exclude=b"}, {{"DDPRUN_INCLUDE", "a"}}, {"--include for --exclude"}},
        {{"--hosts=a", "--tty=0"}, {{"PET_NODE_RANK", "0"}}, {"--node-rank for --hosts"}},
    };
    for (const auto& [words, environment, found] : rows) {
        CAPTURE(words, environment);
        CHECK(passed_over(words, environment) == found);
    }
}

TEST_CASE("plan: a selection goes with its hosts, unless it is typed") {
    const auto included = [](const PlanWords& words) {
        PlanWords all = words;
        all.push_back("p");
        return parse_command_line(all, {{"DDPRUN_HOSTS", "a,b"}, {"DDPRUN_INCLUDE", "a"}}).start.include;
    };
    CHECK(included({}) == "a");
    CHECK(included({"--nnodes=4"}) == "");
    CHECK(included({"--nnodes=4", "--include=b"}) == "b");
}

TEST_CASE("plan: what the environment adds is a part of its own, and what was said stays") {
    const Said said = parse_command_line({"--nproc-per-node=2", "--gpu-bind=none", "p"}, kStepOfTwo);
    const ClusterView view{.environment = kStepOfTwo, .host_name = "n2", .addresses = {}, .files = {}};
    const ClusterTable table = table_of(said, view);
    const JobPart part = part_of_cluster(said, table);
    CHECK((part.is_derived && part.nnodes == 2 && part.node_rank == 1 && part.master_addr == "n1"));
    CHECK((part.port_derived && part.run_id == "slurm-7.0" && part.shares_screen));
    CHECK_FALSE(part.workers);  // said
    CHECK_FALSE(part.allocation);
    const JobPlan job = plan_job(said, table);
    CHECK((job.nnodes == 2 && job.node_rank == 1 && job.run_id == "slurm-7.0"));
    CHECK((said.nnodes == 1 && !said.master_addr && said.run_id == "none"));
    CHECK(job.decided_by == std::map<std::string, std::string>{{"--nnodes", "SLURM_STEP_NUM_NODES"},
                                                               {"--node-rank", "SLURM_NODEID"},
                                                               {"--master-addr", "SLURM_STEP_NODELIST"},
                                                               {"--master-port", "the job's id"},
                                                               {"--rdzv-id", "SLURM_JOB_ID, SLURM_STEP_ID"}});
    CHECK(job.master_source == "SLURM_STEP_NODELIST");
    CHECK_FALSE(job.listen_any);
    ClusterTable translated = table;
    translated.many_addresses = true;
    CHECK(plan_job(said, translated).listen_any);
    const LaunchOptions options = resolve_launch(job, node_with(0, 1));
    CHECK((options.nnodes == 2 && options.node_rank == 1 && options.shares_screen && !options.is_started));
    CHECK(options.master_source == job.master_source);
    CHECK(options.host_list.hosts == PlanWords{"n1", "n2"});
    CHECK(options.origins == said.origins);
    // What is said is stronger, each for itself.
    const JobPlan typed = plan_in({"--master-addr=m", "--rdzv-id=mine", "--master-port=9"}, kStepOfTwo);
    CHECK(
        (typed.nnodes == 2 && typed.master_addr == "m" && typed.run_id == "mine" && typed.master_port == 9));
    CHECK_FALSE(typed.decided_by.contains("--master-addr"));
    CHECK(typed.master_source.empty());
    const ConfigText config("master-addr = \"m\"\n");
    CHECK_FALSE(part_of_cluster(parse_command_line({config.flag(), "p"}, kStepOfTwo),
                                table_of(parse_command_line({config.flag(), "p"}, kStepOfTwo), view))
                    .master_addr);
    // Hosts that are named are, too.
    CHECK(plan_in({"--hosts=a"}, kStepOfTwo).nnodes == 1);
    CHECK(plan_in({"--hosts=a"}, kStepOfTwo).starts_hosts());
}

TEST_CASE("plan: an agent that was started hears its starter, and nothing else about hosts") {
    const ConfigText config("local-addr = \"10.0.0.1\"\n");
    const Environment around{{"DDPRUN_HOSTS", "x,y"}, {"DDPRUN_INCLUDE", "x"}};
    const PlanWords words{config.flag(), "--nnodes=2", "--node-rank=1", "--master-addr=a", "p"};
    const Starter starter{.slots = 3, .hosts = {}, .python = "/own/python3"};
    const Said said = parse_command_line(words, around, "ddprun", {}, starter);
    CHECK((!said.start.is_asked() && said.start.include.empty() && said.scheduler == "none"));
    CHECK(said.local_addr == "10.0.0.1");
    CHECK(said.starter->python == "/own/python3");
    const JobPlan job = plan_job(
        said, ClusterView{.environment = kStepOfTwo, .host_name = "n2", .addresses = {}, .files = {}});
    CHECK((job.nnodes == 2 && job.node_rank == 1 && job.master_addr == "a" && !job.part.is_derived));
    CHECK(job.nproc_per_node == WorkerCount(ForEachGpu{3}));
    CHECK(job.verbosity == Verbosity::troubles);
    CHECK_FALSE(job.part.master_port);
    // Not where it does not take a worker for each GPU.
    CHECK(parse_command_line(words, around, "ddprun", {}, Starter{}).nproc_per_node == WorkerCount(1));
}

TEST_CASE("plan: doctor's job takes of the file what finds its nodes, and has its own ends") {
    const ConfigText config("nnodes = 1\nmax-restarts = 3\nquiet = true\n");
    const PlanWords words{config.flag(), "--verbose", "--no-python", "--",
                          kThisProgram,  "doctor",    "--as-node"};
    const Said said = parse_command_line(words, {});
    CHECK(said.origins.contains("--nnodes"));
    CHECK(said.restarts.max_restarts == 0);
    REQUIRE(said.remarks.size() == 2);
    CHECK(said.remarks[0].starts_with("--max-restarts: passed over, doctor starts no program (from "));
    CHECK(said.remarks[1].starts_with("--quiet (from "));
    const LaunchOptions options = resolve_launch(JobPlan(said), {});
    CHECK(options.entry_name == "ddprun doctor");
    CHECK(options.known_as == "doctor");
    CHECK(options.told_exit_code == kExitProblem);
    PlanWords others = words;
    others.back() = "--other";
    CHECK(parse_command_line(others, {}).restarts.max_restarts == 3);
    CHECK_FALSE(resolve_launch(JobPlan(parse_command_line(others, {})), {}).told_exit_code);
}

TEST_CASE("plan: what follows from the words alone") {
    const auto job = [](PlanWords words) {
        words.emplace_back("p");
        return parse_command_line(words, {});
    };
    const Said assumed = job({"--nnodes=2"});
    CHECK((assumed.address_assumed && assumed.master_addr == "127.0.0.1"));
    CHECK_FALSE(job({"--nnodes=2", "--master-addr=a"}).address_assumed);
    CHECK(job({"--local-addr=h"}).master_addr == "h");
    CHECK_FALSE(job({"--local-addr=0.0.0.0"}).master_addr);
    // Port 0 is said to one node only; 0 twice is no contradiction.
    CHECK(job({"--rdzv-endpoint=h:0", "--master-port=0"}).remarks.empty());
    CHECK(job({"--rdzv-endpoint=h:0", "--master-port=7"}).remarks.size() == 1);
    CHECK(refusal({"--nnodes=2", "--rdzv-endpoint=h:0", "p"})
              .starts_with("--rdzv-endpoint h:0: no other node"));
    CHECK(job({"--rdzv-endpoint=h:7", "--master-port=6"}).master_port == 7);
    CHECK(job({"--forward=TERM=USR1"}).terminating_signals == std::vector<int>{SIGINT, SIGHUP, SIGQUIT});
    CHECK(job({"--requeue-on=USR1"}).forwarded_signals == std::map<int, int>{{SIGUSR1, SIGUSR1}});
    CHECK((job({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h"}).node_rank == kUnnumbered));
    NodeFacts facts;
    facts.join_spent = std::chrono::milliseconds(7);
    JobPlan read(job({}));
    read.read_program = std::make_shared<const std::string>("print(1)");
    const LaunchOptions options = resolve_launch(read, facts);
    CHECK(options.join_spent == facts.join_spent);
    CHECK(options.read_program == read.read_program);
}

TEST_CASE("plan: a launch has what was said to its features, and what they have opened") {
    // The line is read again for the variable, which is passed over.
    const Said said = parse_command_line({"--events=/e/%r", "--check", "--time-limit=90", "--no-python", "p"},
                                         {{"DDPRUN_MODULE", "1"}});
    JobPlan job = plan_job(said, ClusterView{});
    const auto opened = std::make_shared<DetachedStart>();
    job.features.of<KnownJobOptions>().detached = opened;
    const FeatureOptions features = resolve_launch(job, {}).features;
    CHECK(features.of<EventLogOptions>().path == "/e/0");
    CHECK(features.of<NodeCheckOptions>().asked);
    CHECK(features.of<TimeLimitOptions>().limit == std::chrono::seconds(90));
    CHECK(features.of<KnownJobOptions>().detached == opened);
    CHECK(said.features.of<EventLogOptions>().path == "/e/%r");
}

TEST_CASE("plan: a value of a job of its own is --standalone's") {
    const JobPlan job(parse_command_line({"--standalone", "p"}, {}));
    NodeFacts facts;
    facts.fresh_id = "fresh";
    for (const LaunchValue& value : launch_values(job, resolve_launch(job, facts), facts)) {
        if (value.name == "job id") CHECK(value == LaunchValue{"job id", "fresh", "--standalone"});
    }
}

}  // namespace ddprun
