// Several programs on one command line.
#include "apps/cli/option_values.hpp"
#include "apps/ddprun/modes/explanation.hpp"
#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

std::string programs_refusal(Words words) {
    try {
        take_further_programs(words);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

NodeFacts node_with(const Environment& environment) {
    NodeFacts facts;
    facts.environment = environment;
    facts.hardware.usable_cpus = 8;
    return facts;
}

LaunchOptions launch_of(const Words& words, const NodeFacts& facts = node_with({})) {
    return resolve_launch(JobPlan(parse_command_line(words, {})), facts);
}

}  // namespace

TEST_CASE("programs: only a colon in front of --nproc-per-node separates them") {
    Words words = {"a", ":", "x", ":", "--nproc-per-node=2", "b", "1", ":", "--nproc_per_node",
                   "3", "c", ":"};
    const auto further = take_further_programs(words);
    CHECK(words == Words{"a", ":", "x"});
    REQUIRE(further.size() == 2);
    CHECK(further[0].workers == 2);
    CHECK(further[0].words == Words{"b", "1"});
    CHECK(further[1].workers == 3);
    CHECK(further[1].words == Words{"c", ":"});
    Words none = {"a", ":", "--nnodes", "2", ":"};
    CHECK(take_further_programs(none).empty());
    CHECK(none.size() == 5);
    Words empty;
    CHECK(take_further_programs(empty).empty());
}

TEST_CASE("programs: an empty number is none, and one -- is dropped, as with PROGRAM") {
    const struct {
        Words words;
        int workers;
        Words program;
    } rows[] = {
        {{"--nproc-per-node", "", "b"}, 1, {"b"}},
        {{"--nproc-per-node=", "b"}, 1, {"b"}},
        {{"--nproc-per-node=2", "--", "b", "--", "c"}, 2, {"b", "--", "c"}},
        {{"--nproc-per-node", "2", "--", "-b"}, 2, {"-b"}},
        {{"--nproc-per-node", "2", "b", "--", "--", "c"}, 2, {"b", "--", "c"}},
        {{"--nproc-per-node", "2", "b", "c", "--"}, 2, {"b", "c", "--"}},
    };
    for (const auto& row : rows) {
        Words words{"a", ":"};
        words.insert(words.end(), row.words.begin(), row.words.end());
        CAPTURE(words);
        const auto further = take_further_programs(words);
        REQUIRE(further.size() == 1);
        CHECK(further[0].workers == row.workers);
        CHECK(further[0].words == row.program);
    }
}

TEST_CASE("programs: what is missing or wrong is said in one line") {
    CHECK(programs_refusal({":", "--nproc-per-node", "1", "b"}) ==
          "no program in front of \": --nproc-per-node\"");
    CHECK(programs_refusal({"a", ":", "--nproc-per-node"}) == ": --nproc-per-node: needs a value");
    CHECK(programs_refusal({"a", ":", "--nproc-per-node="}) == ": --nproc-per-node: no program follows");
    CHECK(programs_refusal({"a", ":", "--nproc-per-node=1", "--"}) ==
          ": --nproc-per-node 1: no program follows");
    CHECK(programs_refusal({"a", ":", "--nproc-per-node=x", "b"}).starts_with(": --nproc-per-node x: "));
    CHECK(programs_refusal({"a", ":", "--nproc-per-node=1", ":", "--nproc-per-node=1", "c"}) ==
          ": --nproc-per-node 1: no program follows");
    CHECK(programs_refusal({"a", ":", "--nproc-per-node=2", "--no-python", "b"}) ==
          ": --nproc-per-node 2: --no-python stands where its program should; no other option may");
    CHECK(programs_refusal({"a", ":", "--nproc-per-node=0", "b"}).starts_with(": --nproc-per-node 0: "));
    CHECK_THROWS_WITH(launch_of({"--nproc-per-node=4096", "a", ":", "--nproc-per-node=1", "b"}),
                      "--nproc-per-node 4096 : 1: 4097 workers, must be at most 4096");
}

TEST_CASE("programs: each local rank has its own, and the job's command names all") {
    const LaunchOptions options = launch_of({"--program=1:d", "a", ":", "--nproc-per-node=2", "b.py"});
    REQUIRE(options.workers.size() == 3);
    CHECK(options.workers[0].argv == Words{"a"});
    CHECK(options.workers[2].argv == Words{"python3", "-u", "b.py"});
    CHECK(options.workers[2].additions.contains("PYTHONFAULTHANDLER"));
    CHECK_FALSE(options.workers[0].additions.contains("PYTHONFAULTHANDLER"));
    CHECK(options.command == Words{"a", ":", "b.py", "--program", "d"});
    CHECK(dry_run_text(options, "h") ==
          "rank 0 on node 0 (h): , OMP_NUM_THREADS=2; runs a\n"
          "rank 1 on node 0 (h): , OMP_NUM_THREADS=2; runs d\n"
          "rank 2 on node 0 (h): , OMP_NUM_THREADS=2; runs python3 -u b.py\n");
}

TEST_CASE(
    "programs: Python in any clothes gets the fault handler and no buffer, unless the user has decided") {
    const auto added = [](const Words& words, const Environment& environment = {}) {
        NodeFacts facts = node_with(environment);
        facts.files["./tool"] = {.interpreter = {"/usr/bin/env", "python3"}, .real_name = "tool"};
        const LaunchOptions options = launch_of(words, facts);
        std::string names;
        for (const auto& [name, value] : options.workers.at(0).additions) {
            if (name.starts_with("PYTHON")) names += name.substr(6) + "=" + value + " ";
        }
        return names;
    };
    // Where ddprun runs Python, it does so with -u.
    const std::string by_us = "FAULTHANDLER=1 ", own = "FAULTHANDLER=1 UNBUFFERED=1 ";
    for (const Words& words : {Words{"train.py"}, Words{"-m", "train"}, Words{"--python", "train"}})
        CHECK(added(words) == by_us);
    for (const Words& words :
         {Words{"python3", "train.py"}, Words{"env", "-u", "X", "A=B", "python3", "x.py"},
          Words{"/opt/bin/python3.12", "-m", "x"}, Words{"./tool"}, Words{"--no-python", "./tool"},
          Words{"--program=*:python3 x.py"}})
        CHECK(added(words) == own);
    for (const Words& words : {Words{"train"}, Words{"--no-python", "train.py"}, Words{"bash", "run.sh"},
                               Words{"--like-torchrun", "--no-python", "python3", "x.py"}})
        CHECK(added(words).empty());
    for (const char* value : {"0", ""}) {
        const Environment decided = {{"PYTHONFAULTHANDLER", value}, {"PYTHONUNBUFFERED", value}};
        CHECK(added({"train.py"}, decided).empty());
        CHECK(added({"python3", "train.py"}, decided).empty());
        // What the workers do not inherit decides nothing.
        CHECK(added({"--clean-env", "python3", "train.py"}, decided) == own);
    }
    CHECK(launch_of({"--clean-env", "train"}, node_with({{"OMP_NUM_THREADS", "3"}}))
              .workers.at(0)
              .additions.contains("OMP_NUM_THREADS"));
}

TEST_CASE("programs: each program has the GPUs of its kind") {
    NodeFacts facts = node_with({{"CUDA_VISIBLE_DEVICES", "4,5,6"}});
    facts.hardware.devices = find_devices({}, {.gpus = std::vector<Gpu>(3), .source = "/dev/nvidia*"});
    for (const char* name : {"./train", "./writer"})
        facts.files[name] = {.is_binary = true, .real_name = "x"};
    const auto mask = [&](const WorkerPlan& plan) { return plan.additions.at("CUDA_VISIBLE_DEVICES"); };
    const LaunchOptions options = launch_of({"--nproc-per-node=2", "--program=1:./writer", "python3",
                                             "train.py", ":", "--nproc-per-node=1", "./train"},
                                            facts);
    CHECK(mask(options.workers.at(0)) == "0,1,2");
    CHECK_FALSE(options.workers[0].sees_one_gpu);
    CHECK(mask(options.workers.at(2)) == "2");
    CHECK(options.workers[2].sees_one_gpu);
    REQUIRE(options.programs.size() == 1);
    CHECK(mask(options.programs[0].workers.at(1)) == "1");
    CHECK_FALSE(options.programs[0].workers[1].additions.contains("PYTHONFAULTHANDLER"));
    // Of one GPU nobody sees more, and where it is local rank 0 for all, that is no wrong one.
    facts.hardware.devices = find_devices({{"CUDA_VISIBLE_DEVICES", "7"}}, {});
    CHECK_FALSE(launch_of({"./train"}, facts).workers.at(0).sees_one_gpu);
}

}  // namespace ddprun
