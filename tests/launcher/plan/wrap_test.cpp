#include "launcher/plan/rank_command.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

Wrap wrap_of(const std::string& value) { return std::get<Wrap>(parse_wrap(value)); }

Words wrapped(const Words& values, const WrapPlace& place) {
    std::vector<Wrap> wraps;
    for (const std::string& value : values) wraps.push_back(wrap_of(value));
    return wrapped_argv(wraps, {"./a.out", "%r"}, place);
}

std::string wrap_refusal(const std::string& value) { return std::get<std::string>(parse_wrap(value)); }

}  // namespace

TEST_CASE("wrap: the command goes in front of the named ranks") {
    CHECK(wrapped({"0,8-15:gdb --args"}, {.rank = 0}) == Words{"gdb", "--args", "./a.out", "%r"});
    CHECK(wrapped({"0,8-15:gdb --args"}, {.rank = 9, .local_rank = 0}) ==
          Words{"gdb", "--args", "./a.out", "%r"});
    CHECK(wrapped({"0,8-15:gdb --args"}, {.rank = 1, .local_rank = 0}) == Words{"./a.out", "%r"});
    CHECK(wrapped({"*:nice"}, {.rank = 77}) == Words{"nice", "./a.out", "%r"});
    CHECK(wrapped({"local=0,2:nice"}, {.rank = 5, .local_rank = 2}) == Words{"nice", "./a.out", "%r"});
    CHECK(wrapped({"local=0:nice"}, {.rank = 0, .local_rank = 1}) == Words{"./a.out", "%r"});
    CHECK(wrapped({"local=*:nice"}, {.rank = 3, .local_rank = 3}) == Words{"nice", "./a.out", "%r"});
    CHECK(wrapped({}, {}) == Words{"./a.out", "%r"});
}

TEST_CASE("wrap: several nest, the first outermost") {
    CHECK(wrapped({"*:nice -n 5", "1:valgrind", "0:gdb"}, {.rank = 1}) ==
          Words{"nice", "-n", "5", "valgrind", "./a.out", "%r"});
}

TEST_CASE("wrap: macros of the command, and of the command only") {
    const WrapPlace place{.rank = 12, .local_rank = 4, .host = "gpu07"};
    CHECK(wrapped({"*:nsys -o 'out %h-%r.%l' %%r 100%% %q %"}, place) ==
          Words{"nsys", "-o", "out gpu07-12.4", "%r", "100%", "%q", "%", "./a.out", "%r"});
    CHECK(wrapped({"*:x %%%r%"}, {.rank = 3}) == Words{"x", "%3%", "./a.out", "%r"});
}

TEST_CASE("wrap: a colon in the command is the command's") {
    CHECK(wrapped({"0:gdbserver :1234"}, {.rank = 0}) == Words{"gdbserver", ":1234", "./a.out", "%r"});
}

TEST_CASE("wrap: refusals name the flag and the value") {
    CHECK(wrap_refusal("gdb") ==
          "--wrap 'gdb': RANKS:COMMAND is expected, for example '0:gdb --args' or '*:nsys profile "
          "-o r%r'");
    CHECK(wrap_refusal("x:gdb") == "--wrap 'x:gdb': 'x' is no rank (0, 1, ...) and no range (8-15)");
    CHECK(wrap_refusal("local=:gdb") == "--wrap 'local=:gdb': '' is no rank (0, 1, ...) and no range (8-15)");
    CHECK(wrap_refusal("0:gdb 'x") == "--wrap '0:gdb 'x': the quote ' is not closed");
    CHECK(wrap_refusal("0:") == "--wrap '0:': no command follows the ranks");
    CHECK(wrap_refusal("0:'' x") == "--wrap '0:'' x': no command follows the ranks");
}

}  // namespace ddprun
