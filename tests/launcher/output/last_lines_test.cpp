#include "launcher/output/output_lines.hpp"

#include "rendezvous/control/control_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Lines = std::vector<std::string>;

std::string numbered(int first, int last) {
    std::string text;
    for (int i = first; i <= last; ++i) text += "line " + std::to_string(i) + "\n";
    return text;
}

}  // namespace

TEST_CASE("the last lines of many blocks, small or large") {
    const int step = GENERATE(1, 3, 19, 20, 21, 500);
    CAPTURE(step);
    LastLines last;
    for (int i = 0; i < 500; i += step) last.add(numbered(i, std::min(i + step, 500) - 1));
    const Lines lines = last.lines();
    REQUIRE(lines.size() == kMaxLastLines);
    CHECK(lines.front() == "line 480");
    CHECK(lines.back() == "line 499");
}

TEST_CASE("few lines, empty ones, carriage returns and an unfinished one") {
    LastLines last;
    CHECK(last.lines().empty());
    CHECK(last.lines("only this") == Lines{"only this"});
    last.add("one\n\ntwo\r\n");
    CHECK(last.lines() == Lines{"one", "", "two"});
    CHECK(last.lines("thr") == Lines{"one", "", "two", "thr"});
    last.add("\n");
    CHECK(last.lines() == Lines{"one", "", "two", ""});
}

TEST_CASE("an unfinished line counts among the twenty") {
    LastLines last;
    last.add(numbered(1, 20));
    const Lines lines = last.lines("rest");
    REQUIRE(lines.size() == kMaxLastLines);
    CHECK(lines.front() == "line 2");
    CHECK(lines.back() == "rest");
}

TEST_CASE("long lines are cut, also those that come in pieces") {
    LastLines last;
    last.add("before\n" + std::string(3 * kMaxLastLineText, 'x'));
    last.add(std::string(50, 'y') + "\nnext\n");
    CHECK(last.lines() == Lines{"before", std::string(kMaxLastLineText, 'x'), "next"});
    LastLines pieces;
    pieces.add("ab");
    pieces.add("cd");
    CHECK(pieces.lines("ef") == Lines{"abcdef"});
    pieces.add("ef\ngh\n");
    CHECK(pieces.lines() == Lines{"abcdef", "gh"});
}

}  // namespace ddprun
