// The configuration file of --config.
#include "tests/apps/config_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("options: the configuration file") {
    const ConfigText config(
        "# of this site\nmax_restarts = 3\ngrace = 9\nallow-different = true\nquiet = false\nprefix = true\n"
        "role = ''\nwrap = [\"0:gdb --args\", \"1:valgrind -q\"]\nrestart-on = \"1,64-78\"\n");
    const CommandLine line = parse_command_line({config.flag(), "p"}, {});
    CHECK(line.restarts.max_restarts == 3);
    CHECK(line.grace_period == 9s);
    CHECK(line.allow_different);
    CHECK(line.verbosity == Verbosity::usual);
    CHECK(line.output.prefix->with({"h", "default", "stdout", 5, 1}).render("NOW") == "h:5: ");
    CHECK(line.role == "default");
    CHECK(line.wraps.size() == 2);
    CHECK(line.restarts.restart_on == std::vector<CodeRange>{{1, 1}, {64, 78}});
}

TEST_CASE("options: what a configuration file may not say") {
    const struct {
        std::string text, why;
    } rows[] = {
        {"nnode = 2\n", "nnode: no such option; did you mean nnodes?"},
        {"completely-unknown = 2\n", "completely-unknown: no such option"},
        {"config = x\n", "config: no such option"},
        {"[nodes]\nnnodes = 2\n", "nodes.nnodes: no such option"},
        {"restart-on = 1,64-78\n", "restart-on: takes one value; put one with blanks or commas in quotes"},
        {"role = chief of staff\n", "role: takes one value; put one with blanks or commas in quotes"},
    };
    for (const auto& row : rows) {
        const ConfigText config(row.text);
        CHECK_THAT(refusal({config.flag(), "p"}),
                   Catch::StartsWith("--config " + config.path().string() + ": " + row.why));
    }
    CHECK(refusal({"--config=/no/such/file", "p"}) ==
          "--config /no/such/file: cannot be read: No such file or directory");
    CHECK(refusal({"p"}, {{"DDPRUN_CONFIG", "/"}}) ==
          "--config /: cannot be read: Is a directory (from DDPRUN_CONFIG)");
}

}  // namespace ddprun
