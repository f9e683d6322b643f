// Several programs on one command line.
#include "apps/cli/option_values.hpp"
#include "apps/ddprun/explain/dry_run.hpp"
#include "apps/ddprun/launch_plan.hpp"
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

LaunchOptions launch_of(const Words& words) {
    NodeFacts facts;
    facts.hardware.usable_cpus = 8;
    return resolve_launch(parse_command_line(words, {}), facts);
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

}  // namespace ddprun
