#include "launcher/agent/worker_placement.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct Flags {
    OutputOptions output;
    std::vector<std::string> wraps;
    std::vector<std::string> programs = {};
    std::optional<int> tty_rank;
    std::optional<int> reader = {};
};

LaunchOptions options_of(const Flags& flags, std::size_t workers) {
    LaunchOptions options;
    options.output = std::get<OutputPlan>(parse_output_options(flags.output));
    for (const std::string& wrap : flags.wraps) options.wraps.push_back(std::get<Wrap>(parse_wrap(wrap)));
    for (const std::string& program : flags.programs)
        options.programs.push_back({std::get<RankCommand>(parse_rank_command("--program", program, "")), {}});
    options.tty_rank = flags.tty_rank;
    options.standard_input.rank = flags.reader;
    options.workers.resize(workers);
    return options;
}

std::string of_job(const Flags& flags, int world_size) {
    return rank_beyond_job(options_of(flags, 1), world_size).value_or("");
}

std::string of_node(const Flags& flags, std::size_t workers) {
    return local_rank_beyond_node(options_of(flags, workers)).value_or("");
}

}  // namespace

TEST_CASE("rank limits: ranks that the job does not have") {
    CHECK(of_job({}, 1).empty());
    CHECK(of_job({.output = {.show = "*"}, .wraps = {"*:nsys"}}, 1).empty());
    CHECK(of_job({.output = {.show = "0,2-3"}, .wraps = {"3:gdb --args"}, .tty_rank = 3}, 4).empty());
    CHECK(of_job({.output = {.show = "9"}}, 1) == "--show 9: the job has 1 worker, rank 0");
    CHECK(of_job({.output = {.show = "0, 2-4,7"}}, 4) == "--show 2-4: the job has 4 workers, ranks 0 to 3");
    CHECK(of_job({.output = {}, .tty_rank = 5}, 5) == "--tty 5: the job has 5 workers, ranks 0 to 4");
    CHECK(of_job({.output = {}, .wraps = {}, .programs = {"0-1:a", "4-5:b c"}}, 4) ==
          "--program '4-5:b': the job has 4 workers, ranks 0 to 3");
    CHECK(of_job({.output = {}, .reader = 5}, 5) == "--stdin 5: the job has 5 workers, ranks 0 to 4");
    CHECK(of_job({.output = {}, .reader = 0}, 0).empty());  // the default, and a job without workers
    CHECK(of_job({.output = {}, .wraps = {"0:gdb", "7:gdb --args"}}, 2) ==
          "--wrap '7:gdb': the job has 2 workers, ranks 0 to 1");
    CHECK(of_job({.output = {.local_ranks_filter = "9"}, .wraps = {"local=9:gdb"}}, 2).empty());
}

TEST_CASE("rank limits: local ranks that the node does not have") {
    CHECK(of_node({}, 1).empty());
    CHECK(of_node({.output = {.redirects = "3", .tee = "1:3", .local_ranks_filter = "0-1"}}, 2).empty());
    CHECK(of_node({.output = {.redirects = "5:3"}}, 4) ==
          "--redirects 5:3: this node has 4 workers, local ranks 0 to 3");
    CHECK(of_node({.output = {.tee = "0:3,1:1"}}, 1) == "--tee 1:1: this node has 1 worker, local rank 0");
    CHECK(of_node({.output = {.local_ranks_filter = "0,2"}}, 2) ==
          "--local-ranks-filter 2: this node has 2 workers, local ranks 0 to 1");
    CHECK(of_node({.output = {}, .wraps = {"local=2-3:gdb"}}, 3) ==
          "--wrap 'local=2-3:gdb': this node has 3 workers, local ranks 0 to 2");
    CHECK(of_node({.output = {.show = "9"}, .wraps = {"9:gdb"}, .tty_rank = 9}, 2).empty());
}

}  // namespace ddprun
