#include "launcher/output/output_lines.hpp"

#include <map>
#include <random>
#include <sstream>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("every line has its prefix") {
    ConsoleText text;
    std::string out;
    text.add(out, 0, "[0] ", "one\ntwo\n");
    text.add(out, 1, "[1] ", "\n");
    text.add(out, 2, "", "bare\n");
    CHECK(out == "[0] one\n[0] two\n[1] \nbare\n");
    text.add(out, 0, "[0] ", "");
    CHECK(out == "[0] one\n[0] two\n[1] \nbare\n");
}

TEST_CASE("an unfinished line is continued by its own stream, and left alone by another") {
    ConsoleText text;
    std::string out;
    text.add(out, 0, "[0] ", "a\nhalf");
    text.add(out, 0, "[0] ", " more");
    text.add(out, 0, "[0] ", "; whole\nb");
    CHECK(out == "[0] a\n[0] half more; whole\n[0] b");
    text.add(out, 1, "[1] ", "c\n");
    text.add(out, 0, "[0] ", "rest\n");
    CHECK(out == "[0] a\n[0] half more; whole\n[0] b\n[1] c\n[0] rest\n");
}

TEST_CASE("text goes out as it is only where nothing has to be put before it") {
    ConsoleText text;
    std::string out;
    CHECK(text.takes_as_is(0, ""));
    CHECK_FALSE(text.takes_as_is(0, "> "));
    text.wrote_as_is(0, "half");
    CHECK(text.takes_as_is(0, ""));
    CHECK_FALSE(text.takes_as_is(1, ""));
    text.add(out, 1, "", "x\n");
    CHECK(out == "\nx\n");
    CHECK(text.takes_as_is(0, ""));
    text.pass(out, 0, "", "50%", 80);
    CHECK_FALSE(text.takes_as_is(0, ""));
}

TEST_CASE("the passing line is erased before anything else") {
    ConsoleText text;
    std::string out;
    text.pass(out, 0, "[0] ", "10%", 80);
    text.pass(out, 0, "[0] ", "20%", 80);
    text.pass(out, 1, "[1] ", "5%", 80);
    text.add(out, 2, "[2] ", "line\n");
    text.pass(out, 0, "[0] ", "30%", 80);
    text.end_line(out);
    const std::string erase = "\r\x1b[K";
    CHECK(out == "[0] 10%" + erase + "[0] 20%" + erase + "[1] 5%" + erase + "[2] line\n[0] 30%" + erase);
    out.clear();
    text.end_line(out);
    CHECK(out.empty());
}

TEST_CASE("only a passing line is erased, once") {
    ConsoleText text;
    std::string out;
    text.erase_passing(out);
    text.add(out, 0, "", "unfinished");
    text.erase_passing(out);
    CHECK(out == "unfinished");
    text.add(out, 0, "", "\n");
    text.pass(out, 1, "", "3 s", 80);
    text.erase_passing(out);
    text.erase_passing(out);
    CHECK(out == "unfinished\n3 s\r\x1b[K");
    CHECK(text.takes_as_is(2, ""));
}

TEST_CASE(
    "behind an unfinished line of another stream a passing line begins anew, behind its own there is none") {
    ConsoleText text;
    std::string out;
    text.add(out, 0, "", "open");
    text.pass(out, 0, "", "opening", 80);
    CHECK(out == "open");
    text.pass(out, 1, "", "20%", 80);
    CHECK(out == "open\n20%");
    text.add(out, 0, "", "end\n");
    CHECK(out == "open\n20%\r\x1b[Kend\n");
    text.add(out, 3, "", "last");
    text.end_line(out);
    CHECK(out == "open\n20%\r\x1b[Kend\nlast\n");
}

TEST_CASE("a line is cut to the columns of a terminal, in characters, escape sequences kept") {
    CHECK(fit_to_columns("abcdef", 3) == "abc");
    CHECK(fit_to_columns("abc", 3) == "abc");
    CHECK(fit_to_columns("", 3) == "");
    CHECK(fit_to_columns("\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88", 2) == "\xe2\x96\x88\xe2\x96\x88");
    CHECK(fit_to_columns("\x1b[31mabc\x1b[0mdef", 4) == "\x1b[31mabc\x1b[0md\x1b[0m");
    CHECK(fit_to_columns("ab\x1b[3", 5) == "ab\x1b[3\x1b[0m");
    CHECK(fit_to_columns("ab\x1b", 5) == "ab\x1b\x1b[0m");
    CHECK(fit_to_columns("abc", 0) == "");
}

TEST_CASE("lines of many streams in random order and pieces: one stream in a line, each stream complete") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> stream_of(0, 4);
    std::uniform_int_distribution<int> kind(0, 9);
    ConsoleText text;
    std::string out;
    std::map<int, std::string> given;
    for (int i = 0; i < 5000; ++i) {
        const int stream = stream_of(random);
        const std::string letter(1, static_cast<char>('a' + stream));
        // Now and then the piece of a line.
        std::string block = letter + std::to_string(i) + (kind(random) == 0 ? "," : "\n");
        if (kind(random) < 3) block = letter + "x\n" + block;
        given[stream] += block;
        text.add(out, stream, letter + ">", block);
    }
    std::map<int, std::string> shown;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
        const int stream = line[0] - 'a';
        REQUIRE(line.substr(1, 1) == ">");
        for (char c : line) REQUIRE((c < 'a' || c > 'e' || c - 'a' == stream));
        shown[stream] += line.substr(2) + (line.back() == ',' ? "" : "\n");
    }
    CHECK(shown == given);
}

}  // namespace ddprun
