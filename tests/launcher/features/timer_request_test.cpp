#include "launcher/features/watchdog.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::string wrong_of(std::string_view line) {
    const auto parsed = parse_timer_request(line);
    REQUIRE(std::holds_alternative<std::string>(parsed));
    return std::get<std::string>(parsed);
}

TimerRequest right_of(std::string_view line) {
    const auto parsed = parse_timer_request(line);
    if (const auto* why = std::get_if<std::string>(&parsed)) FAIL(*why);
    return std::get<TimerRequest>(parsed);
}

std::vector<std::string> lines_pushed(const std::string& bytes, std::size_t piece) {
    TimerLines lines;
    std::vector<std::string> taken;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
        lines.push(std::string_view(bytes).substr(at, piece),
                   [&taken](std::string_view line) { taken.emplace_back(line); });
    return taken;
}

}  // namespace

TEST_CASE("timer request: what PyTorch's client writes is read") {
    // As json.dumps has them.
    CHECK(
        right_of(
            R"({"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": 1732503600.5, "signal": 9})") ==
        TimerRequest{4711, "train.py#12", 1732503600.5, 9});
    const TimerRequest release = right_of(
        R"({"version": 1, "pid": 4711, "scope_id": "train.py#12", "expiration_time": -1, "signal": 0})");
    CHECK(release.is_release());
    CHECK(release.scope == "train.py#12");
    CHECK_FALSE(
        right_of(R"({"version":1,"pid":1,"scope_id":"","expiration_time":0,"signal":-5})").is_release());
    CHECK(right_of(R"({"version":1,"pid":1,"scope_id":"\u00fc\n","expiration_time":1e300,"signal":64})")
              .expires == 1e300);
}

TEST_CASE("timer request: a line that is none says what it lacks, and how it begins") {
    struct Row {
        const char* line;
        const char* why;
    };
    const Row rows[] = {
        {"", "no JSON object"},
        {"[1]", "no JSON object"},
        {R"({"version":1,"pid":1,"scope_id":"a","expiration_time":1,"signal":9)", "no JSON object"},
        {R"({"version":1,"pid":1,"scope_id":"a","expiration_time":Infinity,"signal":9})", "no JSON object"},
        {R"({"pid":1,"scope_id":"a","expiration_time":1,"signal":9})", "version is not 1"},
        {R"({"version":2,"pid":1,"scope_id":"a","expiration_time":1,"signal":9})", "version is not 1"},
        {R"({"version":1,"pid":0,"scope_id":"a","expiration_time":1,"signal":9})", "pid is no process's"},
        {R"({"version":1,"pid":-7,"scope_id":"a","expiration_time":1,"signal":9})", "pid is no process's"},
        {R"({"version":1,"pid":4294967297,"scope_id":"a","expiration_time":1,"signal":9})",
         "pid is no process's"},
        {R"({"version":1,"pid":"1","scope_id":"a","expiration_time":1,"signal":9})", "pid is no process's"},
        {R"({"version":1,"pid":1,"scope_id":7,"expiration_time":1,"signal":9})", "scope_id is no text"},
        {R"({"version":1,"pid":1,"scope_id":"a","expiration_time":"1","signal":9})",
         "expiration_time is no number"},
        {R"({"version":1,"pid":1,"scope_id":"a","signal":9})", "expiration_time is no number"},
        {R"({"version":1,"pid":1,"scope_id":"a","expiration_time":1,"signal":65})", "signal is none"},
        {R"({"version":1,"pid":1,"scope_id":"a","expiration_time":1})", "signal is none"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.line);
        CHECK_THAT(wrong_of(row.line), Catch::Contains(row.why) && Catch::Contains("it begins with: "));
    }
    CHECK_THAT(wrong_of("\x1b[31mred"), !Catch::Contains("\x1b"));
}

TEST_CASE("timer request: a line is as long as a pipe takes at once, and not longer") {
    const std::string start = R"({"version":1,"pid":1,"expiration_time":1,"signal":9,"scope_id":")";
    const std::string longest = start + std::string(kMaxTimerLine - start.size() - 2, 's') + "\"}";
    CHECK(longest.size() == kMaxTimerLine);
    CHECK(right_of(longest).scope.size() == kMaxTimerLine - start.size() - 2);
    CHECK_THAT(wrong_of(longest + " "), Catch::Contains("longer than 4096 bytes"));
}

TEST_CASE("timer lines: the same lines however the bytes come, and of one that is too long its beginning") {
    const std::string too_long(3 * kMaxTimerLine, 'x');
    const std::string bytes = "one\n\ntwo\n" + too_long + "\nthree\nnot ended";
    const std::vector<std::string> expected{"one", "", "two", std::string(kMaxTimerLine + 1, 'x'), "three"};
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, kMaxTimerLine, bytes.size()}) {
        CAPTURE(piece);
        CHECK(lines_pushed(bytes, piece) == expected);
    }
    const std::string longest(kMaxTimerLine, 'x');
    CHECK(lines_pushed(longest + "\n", 1000) == std::vector{longest});
}

}  // namespace ddprun
