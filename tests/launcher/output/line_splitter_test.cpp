#include "launcher/output/output_lines.hpp"

#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Blocks = std::vector<std::string>;

Blocks push(LineSplitter& splitter, std::string_view bytes) {
    Blocks blocks;
    splitter.push(bytes, [&blocks](std::string_view block) { blocks.emplace_back(block); });
    return blocks;
}

// All that comes out for these bytes, given in chunks of random sizes; checks that every block is whole
// lines.
std::string through(std::string_view bytes, std::mt19937& random, std::size_t longest_chunk) {
    LineSplitter splitter;
    std::string all;
    std::uniform_int_distribution<std::size_t> size(1, longest_chunk);
    while (!bytes.empty()) {
        const auto chunk = bytes.substr(0, size(random));
        for (const std::string& block : push(splitter, chunk)) {
            REQUIRE(block.back() == '\n');
            all += block;
        }
        bytes.remove_prefix(chunk.size());
    }
    return all + splitter.take_rest();
}

// What is to be left of one line with carriage returns, said in another way than the splitter's.
std::string last_state(std::string line, bool ended) {
    std::string end;
    while (!line.empty() && line.back() == '\r') {
        line.pop_back();
        if (ended) end = "\r";
    }
    const auto at = line.rfind('\r');
    return (at == std::string::npos ? line : line.substr(at + 1)) + end;
}

}  // namespace

TEST_CASE("whole lines go on at once, in one block, the rest is held") {
    LineSplitter splitter;
    CHECK(push(splitter, "one\ntwo\nthr") == Blocks{"one\ntwo\n"});
    CHECK(splitter.unfinished() == "thr");
    CHECK(push(splitter, "e").empty());
    CHECK(push(splitter, "e\nfour\n\nfi") == Blocks{"three\n", "four\n\n"});
    CHECK(push(splitter, "").empty());
    CHECK(splitter.take_rest() == "fi");
    CHECK(splitter.unfinished().empty());
    CHECK(splitter.take_rest().empty());
}

TEST_CASE("of a line with carriage returns the last state goes on") {
    struct Row {
        const char* given;
        const char* expected;
    };
    const Row row = GENERATE(values<Row>({
        {"10%\r20%\r30%\n", "30%\n"},
        {"\r10%\r20%\n", "20%\n"},
        {"10%\r20%\r\n", "20%\r\n"},
        {"dos\r\nunix\n", "dos\r\nunix\n"},
        {"\r\n", "\r\n"},
        {"\r\r\r\n", "\r\n"},
        {"a\rb\nc\rd", "b\nd"},
        {"a\rb\r", "b"},
        {"a\r", "a"},
        {"\r", ""},
        {"bar\r\n\rbaz\r\rqux", "bar\r\nqux"},
    }));
    CAPTURE(row.given);
    for (std::size_t chunk = 1; chunk < 6; ++chunk) {
        std::mt19937 random(static_cast<unsigned>(chunk));
        CHECK(through(row.given, random, chunk) == row.expected);
    }
}

TEST_CASE("random bytes in random chunks come out complete and in order") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
        std::string given;
        std::string expected;
        std::string line;
        std::uniform_int_distribution<int> kind(0, round % 3 == 0 ? 9 : 30);
        for (int i = 0; i < 400; ++i) {
            const int what = kind(random);
            const char byte = what == 0 ? '\n' : what == 1 ? '\r' : static_cast<char>('a' + what % 20);
            given += byte;
            if (byte == '\n') {
                expected += last_state(line, true) + "\n";
                line.clear();
            } else {
                line += byte;
            }
        }
        expected += last_state(line, false);
        INFO("round " << round);
        REQUIRE(through(given, random, 1 + static_cast<std::size_t>(round) % 50) == expected);
    }
}

TEST_CASE("a line that is too long goes on in pieces, and nothing of it is lost") {
    const std::string line(3 * LineSplitter::kMaxLine + 17, 'x');
    LineSplitter splitter;
    std::string all;
    bool bounded = true;
    for (std::size_t at = 0; at < line.size(); at += 10'000) {
        for (const std::string& block : push(splitter, std::string_view(line).substr(at, 10'000)))
            all += block;
        bounded = bounded && splitter.unfinished().size() <= LineSplitter::kMaxLine;
    }
    CHECK(bounded);
    CHECK(all.size() >= 2 * LineSplitter::kMaxLine);
    for (const std::string& block : push(splitter, "\nnext\n")) all += block;
    CHECK(all == line + "\nnext\n");
}

TEST_CASE("a progress bar that never ends its line is held in its last state only") {
    LineSplitter splitter;
    for (int i = 0; i < 100'000; ++i) {
        const std::string state = "\rstep " + std::to_string(i) + " " + std::string(40, '#');
        REQUIRE(push(splitter, state).empty());
    }
    CHECK(splitter.unfinished() == "step 99999 " + std::string(40, '#'));
    CHECK(push(splitter, "\r") == Blocks{});
    CHECK(splitter.unfinished() == "step 99999 " + std::string(40, '#'));
    CHECK(push(splitter, "\n") == Blocks{"step 99999 " + std::string(40, '#') + "\r\n"});
}

}  // namespace ddprun
