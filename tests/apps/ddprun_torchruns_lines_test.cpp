// Launch lines that torchrun takes: what they mean where two of their words disagree, how values may be
// written, and what errors call them.
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/job_plan.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "rendezvous/control/control_message.hpp"
#include "tests/apps/config_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

Said taken(const Words& words, const Environment& environment = {}, const std::string& called = "ddprun") {
    return parse_command_line(words, environment, called);
}

Said by_torchrun(const Words& words) { return taken(words, {}, "torchrun"); }

// As main shows it.
std::string shown_refusal(const Words& words, const NodeFacts& facts, const Environment& environment = {}) {
    const Said line = taken(words, environment);
    try {
        resolve_launch(JobPlan(line), facts);
    } catch (const UsageError& error) {
        return as_said(line, error.what());
    }
    return "accepted";
}

NodeFacts facts_of_node() {
    NodeFacts facts;
    facts.hardware.usable_cpus = 8;
    facts.fresh_id = "fresh";
    return facts;
}

}  // namespace

TEST_CASE("torchrun's lines: --standalone passes over what it overrides, wrong or not") {
    for (const char* word :
         {"--rdzv_endpoint=:29500", "--rdzv_backend=foo", "--master_addr=a:b:c:", "--master_port=99999"}) {
        CHECK(refusal({"--standalone", word, "p"}) == "accepted");
        CHECK(refusal({word, "p"}, {{"PET_STANDALONE", "1"}}) == "accepted");
        CHECK(refusal({word, "p"}) != "accepted");
    }
}

TEST_CASE("torchrun's lines: --rdzv-endpoint is stronger than --master-addr and --master-port") {
    const Said free = taken({"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--master_addr=10.0.0.1",
                             "--master_port=6000", "p"});
    CHECK(free.master_addr == "localhost");
    CHECK_FALSE(free.master_port);
    CHECK(free.remarks == Words{"--rdzv-endpoint localhost:0: stronger than --master-addr 10.0.0.1 and "
                                "--master-port 6000"});
    CHECK(as_said(free, free.remarks.front()).starts_with("--rdzv_endpoint localhost:0: "));
    const Said other = taken({"--rdzv-endpoint=h:7", "--master-addr=h", "--master-port=6000", "p"});
    CHECK(other.master_port == 7);
    CHECK(other.remarks == Words{"--rdzv-endpoint h:7: stronger than --master-port 6000"});
    const Said same = taken({"--rdzv-endpoint=h:7", "--master-addr=h", "--master-port=7", "p"});
    CHECK(same.remarks.empty());
    const Said without_port = taken({"--rdzv-endpoint=h", "--master-port=6000", "p"});
    CHECK(without_port.master_port == 6000);
    CHECK(without_port.remarks.empty());
}

TEST_CASE("torchrun's lines: with c10d and etcd torchrun's nodes have no numbers of their own") {
    for (const char* backend : {"c10d", "etcd"}) {
        const Words words = {std::string("--rdzv-backend=") + backend, "--nnodes=2", "--rdzv-endpoint=h:1",
                             "--node_rank=7", "p"};
        CHECK(by_torchrun(words).node_rank == kUnnumbered);
        CHECK(refusal(words) == "--node_rank 7: must be less than --nnodes, which is 2");
    }
    CHECK(by_torchrun({"--rdzv-backend=c10d", "--node_rank=5", "p"}).node_rank == 0);
    CHECK(by_torchrun({"--nnodes=2", "--node_rank=1", "p"}).node_rank == 1);
    CHECK(
        taken({"--rdzv-backend=c10d", "--nnodes=2", "--rdzv-endpoint=h:1", "--node-rank=1", "p"}).node_rank ==
        1);
}

TEST_CASE("torchrun's lines: its nodes may differ, and it restarts as often as it is told") {
    const Said line = by_torchrun({"p"});
    CHECK(line.allow_different);
    CHECK(line.restarts.min_uptime == std::chrono::seconds(0));
    CHECK(line.restarts.same_failure == 0);
    const Said own = by_torchrun({"--allow-different=0", "--min-uptime=5", "--same-failure=4", "p"});
    CHECK_FALSE(own.allow_different);
    CHECK(own.restarts.min_uptime == std::chrono::seconds(5));
    CHECK(own.restarts.same_failure == 4);
    CHECK_FALSE(taken({"p"}).allow_different);
    CHECK(taken({"p"}).restarts.same_failure == 3);
}

TEST_CASE("torchrun's lines: bare variables that would be refused are none to torchrun, schedulers are") {
    const Environment bare = {{"MASTER_ADDR", "h"}, {"WORLD_SIZE", "2"}, {"RANK", "1"}};
    const ClusterView view{.environment = bare, .host_name = "h", .addresses = {}, .files = {}};
    CHECK(plan_job(by_torchrun({"p"}), view).nnodes == 1);
    CHECK_THROWS_AS(plan_job(taken({"p"}), view), UsageError);
    ClusterView pod = view;
    pod.environment["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
    CHECK(plan_job(by_torchrun({"p"}), pod).nnodes == 2);
    ClusterView mpi = view;
    mpi.environment["OMPI_COMM_WORLD_SIZE"] = "2";
    mpi.environment["OMPI_COMM_WORLD_RANK"] = "1";
    mpi.environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
    mpi.environment["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
    CHECK_THROWS_AS(plan_job(by_torchrun({"p"}), mpi), UsageError);
}

TEST_CASE("torchrun's lines: numbers may have white space around them and a plus before them") {
    for (const char* two : {" 2", "2\n", "2\r", "+2", "\t+2 \r\n"}) {
        CHECK(taken({"p"}, {{"PET_NPROC_PER_NODE", two}}).nproc_per_node == WorkerCount(2));
        CHECK(taken({std::string("--max_restarts=") + two, "p"}).restarts.max_restarts == 2);
        CHECK(taken({std::string("--nnodes=") + two, "--node-rank=0", "--master-addr=h", "p"}).nnodes == 2);
        CHECK(taken({"p"}, {{"PET_MASTER_PORT", two}}).master_port == 2);
        CHECK(taken({"p"}, {{"PET_REDIRECTS", two}}).output.redirects.any());
        CHECK(refusal({std::string("--monitor-interval=") + two, "p"}) == "accepted");
        CHECK(taken({std::string("--min-uptime=") + two, "p"}).restarts.min_uptime ==
              std::chrono::seconds(2));
    }
    CHECK(taken({"--nnodes= 1 : 3 ", "p"}).nnodes == 3);
    CHECK(taken({"p"}, {{"PET_STANDALONE", "1\r"}}).standalone);
    for (const char* none : {" ", "+", "+-2", "2 2", "++2"})
        CHECK(refusal({std::string("--max_restarts=") + none, "p"}) != "accepted");
}

TEST_CASE("torchrun's lines: an error calls an option as it was typed, wherever it is found") {
    const std::pair<Words, std::string> rows[] = {
        {{"--rdzv_conf=join_timeout=x", "p"}, "--rdzv_conf join_timeout x: "},
        {{"--local_ranks_filter=a", "p"}, "--local_ranks_filter 'a': "},
        {{"-r", "4", "p"}, "-r '4': "},
        {{"-t=9", "p"}, "-t '9': "},
        {{"--requeue_on=NOSUCH", "p"}, "--requeue_on NOSUCH: no such signal"},
        {{"--no_python", "-m", "p"}, "--no_python: contradicts --module (-m)"},
    };
    for (const auto& [words, begin] : rows) CHECK_THAT(refusal(words), Catch::StartsWith(begin));
    CHECK_THAT(shown_refusal({"--nproc_per_node=gpu", "p"}, facts_of_node()),
               Catch::StartsWith("--nproc_per_node gpu: "));
    CHECK_THAT(shown_refusal({"-t=5:1", "p"}, facts_of_node()), Catch::StartsWith("-t 5:1: "));
    CHECK_THAT(shown_refusal({"p"}, facts_of_node(), {{"PET_TEE", "5:1"}}),
               Catch::StartsWith("--tee 5:1: ") && Catch::EndsWith(" (from PET_TEE)"));
    CHECK(as_said(taken({"--log_dir=/etc/passwd", "p"}), "--log-dir /etc/passwd: no folder") ==
          "--log_dir /etc/passwd: no folder");
    CHECK(as_said(taken({"p"}), "--log-dir /etc/passwd: no folder") == "--log-dir /etc/passwd: no folder");
}

TEST_CASE("torchrun's lines: the address of an endpoint is called that in errors") {
    NodeFacts facts = facts_of_node();
    facts.master = "unknown host";
    const std::string why = " nosuch.invalid: cannot be resolved on this machine: unknown host";
    CHECK(shown_refusal({"--rdzv_endpoint=nosuch.invalid:1", "p"}, facts) == "--rdzv_endpoint" + why);
    CHECK(shown_refusal({"p"}, facts, {{"PET_RDZV_ENDPOINT", "nosuch.invalid:1"}}) ==
          "--rdzv-endpoint" + why + " (from PET_RDZV_ENDPOINT)");
    CHECK(shown_refusal({"--master_addr=nosuch.invalid", "p"}, facts) == "--master_addr" + why);
}

TEST_CASE("torchrun's lines: a short option without a value takes nothing that is joined to it") {
    CHECK(refusal({"-m=pkg.mod"}) == "-m=pkg.mod: -m takes no value; write -m as a word of its own");
    CHECK(refusal({"-mpkg.mod"}) == "-mpkg.mod: -m takes no value; write -m as a word of its own");
    CHECK(refusal({"-v=1", "p"}) == "-v=1: -v takes no value; write -v as a word of its own");
    CHECK(refusal({"-mq", "p"}) == "accepted");
}

TEST_CASE("torchrun's lines: a flag that may have a value is given by 1, and not by 0") {
    for (const char* yes : {"1", "true"})
        CHECK(taken({"p"}, {{"DDPRUN_LEGACY_LAUNCH", yes}}).legacy_launch == "--local-rank");
    for (const char* no : {"0", "false"}) {
        CHECK(taken({"p"}, {{"DDPRUN_LEGACY_LAUNCH", no}}).legacy_launch.empty());
        CHECK(taken({"p"}, {{"DDPRUN_LEGACY_LAUNCH", no}}, "ddprun-launch").legacy_launch.empty());
    }
    CHECK(taken({"p"}, {{"DDPRUN_LEGACY_LAUNCH", "local_rank"}}).legacy_launch == "--local_rank");
}

TEST_CASE("torchrun's lines: a store of another type is refused") {
    CHECK(refusal({"--rdzv-conf=store_type=foo", "p"}) == "--rdzv-conf store_type foo: must be tcp or file");
}

TEST_CASE("torchrun's lines: no GPU for xpu is one of Intel's, and no worker at all is a failed count") {
    NodeFacts facts = facts_of_node();
    facts.hardware.devices.source = "/dev/nvidia*";
    CHECK(shown_refusal({"--nproc_per_node=xpu", "p"}, facts) ==
          "--nproc_per_node xpu: this node has no GPU of Intel's (/dev/dri)");
    CHECK_THAT(refusal({"--nproc_per_node=0", "p"}),
               Catch::StartsWith("--nproc_per_node 0: nothing would run"));
}

TEST_CASE("torchrun's lines: with --virtual-local-rank no error advises what contradicts it") {
    NodeFacts facts = facts_of_node();
    facts.hardware.devices = find_devices({{"CUDA_VISIBLE_DEVICES", "3"}}, {});
    const std::string alone = shown_refusal({"--virtual-local-rank", "--nproc-per-node=2", "p"}, facts);
    CHECK_THAT(alone, Catch::StartsWith("2 workers") && !Catch::Contains("--gpu-bind none"));
    CHECK_THAT(shown_refusal({"--nproc-per-node=2", "p"}, facts), Catch::Contains("--gpu-bind none"));
}

TEST_CASE("keys of --rdzv-conf that nobody knows are passed over with a word") {
    const RdzvConf conf =
        parse_rdzv_conf("join_timout=5,store_type=file,of_mine=x,timeout=3,use_libuv=0,cacert=x");
    CHECK(conf.join_timeout == std::chrono::seconds(3));
    CHECK(conf.complaints ==
          std::vector<std::string>{
              "--rdzv-conf store_type file: passed over, the store is ddprun's own, over TCP",
              "--rdzv-conf join_timout, of_mine: passed over, no such keys; did you mean join_timeout?"});
    CHECK(parse_rdzv_conf("of_mine=x").complaints ==
          std::vector<std::string>{"--rdzv-conf of_mine: passed over, no such key"});
    CHECK(parse_rdzv_conf("store_type=TCP").complaints.empty());
    CHECK(taken({"--rdzv-conf= \t", "p"}).rdzv_conf.complaints.empty());
}

}  // namespace ddprun
