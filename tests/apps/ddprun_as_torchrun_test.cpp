// What people who write torchrun's command lines expect of one: words in, values out.
#include <algorithm>

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "tests/apps/config_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

Said said(const Words& words, const std::string& called = "ddprun") {
    return parse_command_line(words, {}, called);
}

NodeFacts facts_of(const Environment& environment = {}) {
    NodeFacts facts;
    facts.environment = environment;
    facts.hardware.usable_cpus = 8;
    facts.fresh_id = "fresh";
    return facts;
}

LaunchOptions started(const Words& words, const NodeFacts& facts = facts_of(),
                      const std::string& called = "ddprun") {
    return resolve_launch(JobPlan(said(words, called)), facts);
}

std::string launch_refusal(const Words& words, const NodeFacts& facts) {
    try {
        started(words, facts);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

std::string addition(const LaunchOptions& options, const std::string& name, std::size_t local_rank = 0) {
    const std::string* value = find_variable(options.workers.at(local_rank).additions, name);
    return value != nullptr ? *value : "-";
}

std::string text_of(const StandardInput& input) {
    return input.all ? "all" : input.rank ? std::to_string(*input.rank) : "none";
}

}  // namespace

TEST_CASE("as torchrun: long names may be abbreviated, and ours make none of torchrun's ambiguous") {
    CHECK(said({"--nproc=3", "p"}).nproc_per_node == WorkerCount(3));
    CHECK(said({"--nproc_per", "3", "p"}).nproc_per_node == WorkerCount(3));
    CHECK(said({"--nn=1", "p"}).nodes_said);
    CHECK(said({"--standal", "p"}).standalone);
    CHECK(said({"--no_p", "p"}).no_python);  // ours: --no-restart-on
    CHECK(said({"--max=4", "p"}).restarts.max_restarts == 4);
    CHECK(said({"--ro=x", "p"}).role == "x");
    CHECK(said({"--mod", "p"}).module);
    CHECK(said({"--shut=5", "p"}).grace_period == std::chrono::seconds(5));
    CHECK(said({"--redirect=3", "--te=3", "p"}).output.tee.beyond(0) == std::nullopt);
    CHECK(said({"--rdzv-i=job", "p"}).run_id == "job");
    CHECK(said({"--virt", "p"}).virtual_local_rank);
    CHECK(said({"--gp=all", "p"}).gpu_bind == GpuBind::all);  // only ours begins so
    CHECK(said({"p", "--nproc=3"}).program == Words{"p", "--nproc=3"});
}

TEST_CASE("as torchrun: an abbreviation of several options names them") {
    const std::pair<std::string, std::string> rows[] = {
        {"--rdzv", "--rdzv: ambiguous, it may be --rdzv-backend, --rdzv-endpoint, --rdzv-id or --rdzv-conf"},
        {"--no", "--no: ambiguous, it may be --node-rank or --no-python"},
        {"--master_=1", "--master_: ambiguous, it may be --master-addr or --master-port"},
        {"--s",
         "--s: ambiguous, it may be --standalone, --shutdown-timeout, --signals-to-handle or --start-method"},
        {"--exi=1", "accepted"},  // torchrun's --exit-barrier-timeout, not our --exit-wait or --exit-codes
    };
    for (const auto& [word, message] : rows) CHECK(refusal({word, "p"}) == message);
    CHECK(refusal({"--role", "--nproc=2", "p"}) ==
          "--role: needs a value, but --nproc=2 follows; write --role=VALUE for one that begins so");
    CHECK(refusal({"--role", "--rdzv", "p"}) ==
          "--role: needs a value, but --rdzv follows; write --role=VALUE for one that begins so");
}

TEST_CASE("as torchrun: short options with =, and several in one word") {
    CHECK(said({"-r=0:3", "p"}).output.redirects.beyond(0) == "0:3");
    CHECK(said({"-r0:3", "p"}).output.redirects.beyond(0) == "0:3");
    const Said line = said({"-mr", "0:3", "p"});
    CHECK(line.module);
    CHECK(line.output.redirects.beyond(0) == "0:3");
    CHECK(refusal({"-r=4", "p"}) == refusal({"-r", "4", "p"}));
    CHECK(said({"-r=", "--nproc-per-node=2", "p"}).nproc_per_node == WorkerCount(2));
}

TEST_CASE("as torchrun: errors call an option as it was typed, or by its variable") {
    CHECK(refusal({"--no_such_option", "p"}) == "--no_such_option: no such flag; see ddprun --help");
    // Only what is near is suggested.
    CHECK(refusal({"--fold", "p"}) == "--fold: no such flag; see ddprun --help");
    CHECK(refusal({"--rolle", "p"}).find("did you mean --role?") != std::string::npos);
    CHECK(refusal({"--nproc_per_node", "4.5", "p"}) ==
          "--nproc_per_node 4.5: must be a whole number from 0 to 4096, or auto, gpu, xpu or cpu");
    CHECK(refusal({"--max_restarts=x", "p"}) == "--max_restarts x: must be a whole number from 0 to 1000000");
    CHECK(refusal({"--grace=x", "p"}) == "--grace x: must be a whole number from 0 to 10000000");
    CHECK(refusal({"--nnodes", "1", "--node_rank", "1", "p"}) ==
          "--node_rank 1: must be less than --nnodes, which is 1");
    CHECK_THAT(refusal({"p"}, {{"PET_NNODES", "many"}}),
               Catch::Contains("many") && Catch::Contains("PET_NNODES"));
    CHECK_THAT(refusal({"p"}, {{"PET_STANDALONE", "perhaps"}}), Catch::Contains("PET_STANDALONE"));
    for (const char* key : {"read_timeout", "close_timeout", "heartbeat_timeout"})
        CHECK_THAT(refusal({std::string("--rdzv-conf=") + key + "=x", "p"}), Catch::Contains(key));
}

TEST_CASE("as torchrun: --standalone is stronger than all that says how nodes meet") {
    const Said line =
        said({"--standalone", "--nnodes=1:4", "--rdzv-backend=etcd", "--rdzv-endpoint=nosuch:1",
              "--master_addr=10.9.9.9", "--master_port=29500", "--node-rank=3", "--rdzv-id=job", "p"});
    CHECK(line.nnodes == 1);
    CHECK_FALSE(line.elasticity.is_elastic());
    CHECK(line.node_rank == 0);
    CHECK(line.rdzv_backend == RdzvBackend::fixed);
    CHECK_FALSE(line.master_addr);
    CHECK_FALSE(line.master_port);
    const LaunchOptions options = resolve_launch(JobPlan(line), facts_of());
    CHECK(options.run_id == "fresh");
    CHECK(options.master == Endpoint{"127.0.0.1", 0});
    CHECK(started({"p"}).run_id == "none");
    // Nobody else could know a free port, so one of 1:4 is the one that is here.
    CHECK(said({"--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "p"}).nnodes == 1);
    CHECK_THAT(refusal({"--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "p"}),
               Catch::Contains("localhost:0"));
    CHECK(refusal({"--standalone", "--nnodes=2", "p"}) == "--standalone: one node only, but --nnodes is 2");
    CHECK(refusal({"--standalone", "--nnodes=2:3", "p"}) ==
          "--standalone: one node only, but --nnodes is 2:3");
}

TEST_CASE("as torchrun: by that name, or as told, it does so where a script can see it") {
    for (const bool by_name : {true, false}) {
        const Words flag = by_name ? Words{} : Words{"--like-torchrun"};
        const auto options = [&](Words words, const Environment& environment = {}) {
            words.insert(words.begin(), flag.begin(), flag.end());
            return started(words, facts_of(environment), by_name ? "torchrun" : "ddprun");
        };
        const LaunchOptions plain = options({"--nproc-per-node=2", "./train", "$$"});
        CHECK(plain.exits_with_one);
        CHECK(plain.workers.at(1).argv == Words{"python3", "-u", "./train", "$"});
        CHECK(addition(plain, "OMP_NUM_THREADS") == "1");
        CHECK(addition(plain, "PYTHONFAULTHANDLER") == "-");
        CHECK(plain.signal_scope == SignalScope::group);
        CHECK(plain.standard_input.all);
        CHECK(addition(options({"p"}), "OMP_NUM_THREADS") == "-");
        CHECK(addition(options({"--nproc-per-node=2", "p"}, {{"OMP_NUM_THREADS", "3"}}), "OMP_NUM_THREADS") ==
              "-");
        CHECK(options({"--no-python", "./train"}).workers.at(0).argv == Words{"./train"});
        CHECK(options({"-m", "train"}).workers.at(0).argv == Words{"python3", "-u", "-m", "train"});
        CHECK_FALSE(options({"--exit-codes=worker", "p"}).exits_with_one);
        CHECK(options({"--python=0", "./train"}).workers.at(0).argv == Words{"./train"});
        CHECK(text_of(options({"--stdin=none", "p"}).standard_input) == "none");
        CHECK(options({"--signal-scope=leader", "p"}).signal_scope == SignalScope::leader);
        CHECK(addition(options({"--omp-threads=cpus", "p"}), "OMP_NUM_THREADS") == "8");
    }
    CHECK_FALSE(said({"--like-torchrun=0", "p"}, "torchrun").like_torchrun);
    const LaunchOptions usual = started({"p", "$$"});
    CHECK_FALSE(usual.exits_with_one);
    CHECK(usual.workers.at(0).argv == Words{"p", "$$"});
}

TEST_CASE("as torchrun: in a virtual environment torchrun's place comes with its python3") {
    NodeFacts facts = facts_of();
    facts.own_python = "/v/bin/python3";
    CHECK(started({"p"}, facts, "torchrun").workers.at(0).argv.front() == "/v/bin/python3");
    facts.environment["PYTHON_EXEC"] = "/other/python";
    CHECK(started({"p"}, facts, "torchrun").workers.at(0).argv.front() == "/other/python");
}

TEST_CASE("as torch.distributed.launch: the local rank is the first argument") {
    const auto argv = [](const Words& words, const std::string& called = "ddprun") {
        return started(words, facts_of(), called).workers.back().argv;
    };
    CHECK(argv({"--nproc-per-node=2", "train.py", "x"}, "ddprun-launch") ==
          Words{"python3", "-u", "train.py", "--local-rank=1", "x"});
    CHECK(argv({"--legacy-launch", "train.py"}) == Words{"python3", "-u", "train.py", "--local-rank=0"});
    CHECK(argv({"--legacy-launch=local_rank", "-m", "train"}) ==
          Words{"python3", "-u", "-m", "train", "--local_rank=0"});
    CHECK(argv({"--use_env", "train.py"}, "ddprun-launch") == Words{"python3", "-u", "train.py"});
    CHECK(argv({"--use-env", "train.py"}) == Words{"python3", "-u", "train.py"});
    CHECK(argv({"--no-python", "--use-env", "./train"}, "ddprun-launch") == Words{"./train"});
    CHECK(refusal({"--legacy-launch", "--no_python", "./train"}) ==
          "--no_python: with --legacy-launch it needs --use-env, since --local-rank is for a script");
}

TEST_CASE("stdin: rank 0 reads it unless it is a terminal, or who is named") {
    const struct {
        Words words;
        bool is_terminal;
        const char* reader;
    } rows[] = {
        {{"p"}, false, "0"},
        {{"p"}, true, "none"},
        {{"--stdin=0", "p"}, true, "0"},
        {{"--stdin=1", "--nproc-per-node=2", "p"}, false, "1"},
        {{"--stdin=all", "p"}, true, "all"},
        {{"--stdin=none", "p"}, false, "none"},
        {{"--tty=0", "p"}, false, "none"},
        {{"--detach", "p"}, false, "none"},
        {{"--like-torchrun", "p"}, true, "all"},
        {{"--like-torchrun", "--tty=0", "p"}, true, "none"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.words, row.is_terminal);
        NodeFacts facts = facts_of();
        facts.stdin_is_terminal = row.is_terminal;
        CHECK(text_of(started(row.words, facts).standard_input) == row.reader);
    }
    CHECK(refusal({"--stdin=all", "--tty=0", "p"}) == "--stdin all: contradicts --tty, whose rank has it");
    CHECK(refusal({"--stdin=0", "--detach", "p"}) ==
          "--stdin 0: contradicts --detach, after which nothing is read");
    CHECK(launch_refusal({"--stdin=2", "--nproc-per-node=2", "p"}, facts_of()) ==
          "--stdin 2: the job has 2 workers, ranks 0 to 1");
}

TEST_CASE("--virtual-local-rank: each worker has one device, and local rank 0") {
    NodeFacts facts = facts_of();
    const Words words = {"--virtual-local-rank", "--nproc-per-node=2", "train.py"};
    CHECK(started(words, facts).virtual_local_rank);
    CHECK(addition(started(words, facts), "CUDA_VISIBLE_DEVICES", 1) == "1");
    facts.hardware.devices = find_devices({{"CUDA_VISIBLE_DEVICES", " 4, GPU-ab"}}, {});
    CHECK(addition(started(words, facts), "CUDA_VISIBLE_DEVICES", 0) == "4");
    CHECK(addition(started(words, facts), "CUDA_VISIBLE_DEVICES", 1) == "GPU-ab");
    CHECK(addition(started(words, facts), "DDPRUN_DEVICE", 1) == "0");
    facts.hardware.devices = find_devices({{"CUDA_VISIBLE_DEVICES", "4"}}, {});
    CHECK_THAT(launch_refusal(words, facts), Catch::StartsWith("2 workers"));
    CHECK(refusal({"--virtual_local_rank", "--gpu-bind=all", "p"}) ==
          "--virtual_local_rank: every worker sees its own GPU only; --gpu-bind says otherwise");
}

TEST_CASE("--virtual-local-rank: AMD's and Intel's GPUs are shown by their own variables") {
    const struct {
        Environment environment;
        const char* variable;
        const char* second;
    } rows[] = {
        {{{"ROCR_VISIBLE_DEVICES", "2,3"}}, "HIP_VISIBLE_DEVICES", "1"},
        {{{"HIP_VISIBLE_DEVICES", "5,1"}}, "HIP_VISIBLE_DEVICES", "1"},
        {{{"ROCR_VISIBLE_DEVICES", "2,3"}, {"CUDA_VISIBLE_DEVICES", "1,0"}}, "CUDA_VISIBLE_DEVICES", "0"},
        {{{"ZE_AFFINITY_MASK", "0.0,0.1"}}, "ZE_AFFINITY_MASK", "0.1"},
    };
    for (const auto& row : rows) {
        NodeFacts facts = facts_of(row.environment);
        facts.hardware.devices = find_devices(row.environment, {});
        const LaunchOptions options =
            started({"--virtual-local-rank", "--nproc-per-node=2", "train.py"}, facts);
        CHECK(addition(options, row.variable, 1) == row.second);
        CHECK(addition(options, "DDPRUN_DEVICE", 1) == "0");
    }
}

TEST_CASE("as torchrun: --numa-binding is torchrun's, --bind is ours") {
    CHECK(said({"--like-torchrun", "--numa-binding=node", "p"}).gpu_bind == GpuBind::all);
    CHECK(said({"--like-torchrun", "--numa-binding=node", "--gpu-bind=none", "p"}).gpu_bind == GpuBind::none);
    CHECK(said({"--like-torchrun", "--bind=numa", "p"}).gpu_bind == GpuBind::none);
    CHECK(said({"--nu=socket", "p"}).cpu_bind == CpuBind::socket);
    CHECK(refusal({"--n=1", "p"}) ==
          "--n 1: this is mpirun's and srun's count of all workers; here: --nproc-per-node 1 (on each node)");
    CHECK(launch_refusal({"--np=1", "p"}, {}) ==
          "--np 1: this is mpirun's count of all workers; here: --nproc-per-node 1 (on each node)");
    CHECK(said({"--np=3", "p"}, "torchrun").nproc_per_node == WorkerCount(3));
}

TEST_CASE("--local-addr is one of this machine; alone it is MASTER_ADDR, else its interface is used") {
    NodeFacts facts = facts_of();
    facts.addresses = {{"eth7", "10.0.0.7", false}};
    facts.local = std::vector<std::string>{"10.0.0.7"};
    facts.master = facts.local;
    CHECK(started({"--local-addr=10.0.0.7", "p"}, facts).master.host == "10.0.0.7");
    CHECK(said({"--local-addr=10.0.0.7", "--master-addr=127.0.0.1", "p"}).master_addr == "127.0.0.1");
    const Words several = {"--nnodes=2", "--master-addr=10.0.0.7", "--local-addr=10.0.0.7", "p"};
    CHECK(started(several, facts).own_address == OwnAddress{"10.0.0.7", "eth7", "--local-addr 10.0.0.7"});
    facts.local = std::vector<std::string>{"10.0.0.8"};
    CHECK(launch_refusal({"--local-addr=10.0.0.8", "p"}, facts) ==
          "--local-addr 10.0.0.8: no address of this machine, which has 10.0.0.7 (eth7)");
    facts.local = "unknown host";
    CHECK(launch_refusal({"--local-addr=x", "p"}, facts) ==
          "--local-addr x: cannot be resolved on this machine: unknown host");
}

TEST_CASE("as torchrun: --rdzv-conf may stand in quotes that no shell has taken away") {
    for (const char* quoted :
         {"'join_timeout=7,timeout=7'", "\"join_timeout=7\"", " join_timeout = 7 , rank=0"})
        CHECK(said({std::string("--rdzv-conf=") + quoted, "p"}).join_timeout == std::chrono::seconds(7));
    CHECK(refusal({"--rdzv-conf='", "p"}) == "--rdzv-conf ': must be KEY=VALUE,KEY=VALUE,…");
}

TEST_CASE("as torchrun: what has no effect that somebody may wait for is said") {
    CHECK(said({"--event-log-handler=null", "--start-method=fork", "--logs-specs=default", "p"})
              .remarks.empty());
    CHECK(said({"--event-log-handler=console", "p"}).remarks.size() == 1);
}

TEST_CASE("workers are told which signals end the job") {
    CHECK(started({"p"}).environment.at("TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    CHECK(
        started({"--signals-to-handle=SIGUSR1,TERM", "p"}).environment.at("TORCHELASTIC_SIGNALS_TO_HANDLE") ==
        "SIGUSR1,TERM");
}

TEST_CASE("as torchrun: xpu counts GPUs of Intel's only") {
    NodeFacts facts = facts_of();
    facts.hardware.devices.source = "/dev/dri";
    CHECK_THAT(launch_refusal({"--nproc-per-node=xpu", "p"}, facts),
               Catch::Contains("--nproc-per-node xpu") && Catch::Contains("no GPU"));
    facts.hardware.devices.count = 2;
    facts.hardware.devices.gpus = {{"0", {}, "0"}, {"1", {}, "1"}};
    facts.hardware.devices.source = "/dev/nvidia*";
    CHECK_THAT(launch_refusal({"--nproc-per-node=xpu", "p"}, facts),
               Catch::Contains("no GPU of Intel's") && Catch::Contains("/dev/nvidia*"));
    facts.hardware.devices.vendor = GpuVendor::intel;
    CHECK(started({"--nproc-per-node=xpu", "p"}, facts).workers.size() == 2);
    CHECK(started({"--nproc-per-node=gpu", "p"}, facts).workers.size() == 2);
}

TEST_CASE("as torchrun: each option of the newest one is known, with a value that it takes") {
    const std::pair<const char*, const char*> options[] = {{"nnodes", "1"},
                                                           {"nproc-per-node", "1"},
                                                           {"rdzv-backend", "static"},
                                                           {"rdzv-endpoint", "localhost:0"},
                                                           {"rdzv-id", "a"},
                                                           {"rdzv-conf", "timeout=9"},
                                                           {"standalone", ""},
                                                           {"max-restarts", "1"},
                                                           {"monitor-interval", "0.1"},
                                                           {"start-method", "spawn"},
                                                           {"event-log-handler", "null"},
                                                           {"role", "a"},
                                                           {"module", ""},
                                                           {"no-python", ""},
                                                           {"run-path", ""},
                                                           {"log-dir", "/tmp"},
                                                           {"redirects", "0"},
                                                           {"tee", "0"},
                                                           {"local-ranks-filter", "0"},
                                                           {"duplicate-stdout-filters", "a"},
                                                           {"duplicate-stderr-filters", "a"},
                                                           {"node-rank", "0"},
                                                           {"master-addr", "localhost"},
                                                           {"master-port", "1"},
                                                           {"local-addr", "localhost"},
                                                           {"logs-specs", "default"},
                                                           {"numa-binding", "node"},
                                                           {"signals-to-handle", "SIGTERM"},
                                                           {"shutdown-timeout", "1"},
                                                           {"virtual-local-rank", ""},
                                                           {"log-line-prefix-template", "a"}};
    for (const auto& [name, value] : options) {
        CAPTURE(name);
        const std::string given = *value == '\0' ? "" : std::string("=") + value;
        std::string underscores = name;
        std::replace(underscores.begin(), underscores.end(), '-', '_');
        for (const std::string& spelled : {std::string(name), underscores})
            CHECK(said({"--" + spelled + given, "p"}).program == Words{"p"});
    }
}

}  // namespace ddprun
