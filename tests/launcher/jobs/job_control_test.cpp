#include "launcher/jobs/job_control.hpp"

#include <csignal>
#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {
namespace {

AgentStatus some_status() {
    AgentStatus status{.state = "running", .job_id = "none-1f", .round = 2, .restart_count = 1};
    status.max_restarts = 3;
    status.world_size = 16;
    status.workers = {{.rank = 8, .local_rank = 0, .pid = 4711},
                      {.rank = 9, .local_rank = 1, .pid = 4712, .exit_code = 137}};
    return status;
}

std::string without_newline(std::string line) {
    REQUIRE(line.back() == '\n');
    line.pop_back();
    REQUIRE(line.find('\n') == std::string::npos);
    return line;
}

std::string refusal(const std::string& line) {
    const auto parsed = parse_control_request(line);
    const auto* why = std::get_if<std::string>(&parsed);
    return why == nullptr ? "" : *why;
}

}  // namespace

TEST_CASE("requests come back as they were written") {
    for (const ControlRequest& request :
         {ControlRequest(StatusRequest{}), ControlRequest(SignalRequest{SIGTERM}),
          ControlRequest(SignalRequest{SIGRTMIN + 3}), ControlRequest(SignalRequest{SIGRTMAX})}) {
        const std::string line = to_line(request);
        CHECK(line.size() <= kMaxControlRequest);
        CHECK(std::get<ControlRequest>(parse_control_request(without_newline(line))) == request);
    }
    CHECK(to_line(SignalRequest{SIGTERM}) == R"({"version":1,"request":"signal","signal":"SIGTERM"})"
                                             "\n");
}

TEST_CASE("replies come back as they were written") {
    for (const ControlReply& reply :
         {ControlReply{}, ControlReply{.error = "no\n\"such\" thing"}, ControlReply{.ends_job = true},
          ControlReply{.status = some_status()}, ControlReply{.status = AgentStatus{}}}) {
        CHECK(parse_control_reply(without_newline(to_line(reply))) == reply);
    }
}

TEST_CASE("whatever a status holds comes back, and no part of it does") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues values(seed, false);
    for (int i = 0; i < 500; ++i) {
        const ControlReply reply{.status = values.make<AgentStatus>()};
        const std::string line = without_newline(to_line(reply));
        INFO(line);
        REQUIRE(parse_control_reply(line) == reply);
        REQUIRE_FALSE(parse_control_reply(line.substr(0, values.below(line.size()))));
    }
    const auto parsed = [](const std::string& worker) {
        return parse_control_reply(
            R"({"version":1,"error":null,"status":{"state":"x","job_id":"j","round":0,"restart_count":0,)"
            R"("max_restarts":0,"world_size":1,"workers":[)" +
            worker + "]}}");
    };
    CHECK(parsed(R"({"rank":0,"local_rank":0,"pid":1,"running":true,"exit_code":null})"));
    CHECK_FALSE(parsed(R"({"rank":0,"local_rank":0,"pid":1,"running":true})"));
    CHECK_FALSE(parsed(R"({"rank":0,"local_rank":0,"pid":99999999999,"running":false,"exit_code":1})"));
    CHECK_FALSE(parsed(R"({"rank":0,"local_rank":0,"pid":"1","running":false,"exit_code":1})"));
    CHECK_FALSE(parsed("\"\xff\""));
    CHECK(
        to_line(ControlReply{.status = AgentStatus{.workers = {{.rank = 1, .pid = 5}}}}) ==
        R"({"version":1,"error":null,"status":{"state":"","job_id":"","round":0,"restart_count":0,"max_restarts":0,)"
        R"("world_size":0,"workers":[{"rank":1,"local_rank":0,"pid":5,"running":true,"exit_code":null}]}})"
        "\n");
}

TEST_CASE("a status of a large node fits into a reply") {
    ControlReply reply{.status = some_status()};
    reply.status->workers.assign(10'000, {.rank = 2'000'000'000, .local_rank = 9'999, .pid = 4'194'304});
    CHECK(to_line(reply).size() < kMaxControlReply);
}

TEST_CASE("hostile requests are refused in words") {
    CHECK_THAT(refusal(""), Catch::Contains("no JSON object"));
    CHECK_THAT(refusal("[]"), Catch::Contains("no JSON object"));
    CHECK_THAT(refusal("\xff\xfe"), Catch::Contains("no JSON object"));
    CHECK_THAT(refusal(std::string(500, '[')), Catch::Contains("no JSON object"));
    CHECK_THAT(refusal(R"({"version":1,"request":)" + std::string(100, '[') + std::string(100, ']') + "}"),
               Catch::Contains("no JSON object"));
    CHECK_THAT(refusal("{}"), Catch::Contains("only version 1"));
    CHECK_THAT(refusal(R"({"version":2,"request":"status"})"), Catch::Contains("only version 1"));
    CHECK_THAT(refusal(R"({"version":"1","request":"status"})"), Catch::Contains("only version 1"));
    CHECK_THAT(refusal(R"({"version":1})"), Catch::Contains("no such request: ''"));
    CHECK_THAT(refusal(R"({"version":1,"request":7})"), Catch::Contains("no such request"));
    CHECK(refusal("{\"version\":1,\"request\":\"a\\u001b[31m\\nb\"}") == "no such request: 'a?b'");
    CHECK_THAT(refusal(R"({"version":1,"request":"signal"})"), Catch::Contains("no such signal"));
    CHECK_THAT(refusal(R"({"version":1,"request":"signal","signal":9})"), Catch::Contains("no such signal"));
    CHECK_THAT(refusal(R"({"version":1,"request":"signal","signal":"0"})"),
               Catch::Contains("no such signal"));
    CHECK_THAT(refusal(R"({"version":1,"request":"signal","signal":"SIGNAL"})"),
               Catch::Contains("no such signal"));
}

TEST_CASE("what is no reply is none, whatever was changed in one") {
    for (const char* line :
         {"", "{}", "[]", R"({"version":2,"error":null})", R"({"version":1,"error":null,"status":[]})",
          R"({"version":1,"error":null,"status":{"state":"x"}})"}) {
        INFO(line);
        CHECK_FALSE(parse_control_reply(line));
    }
    const auto seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::string good = without_newline(to_line(ControlReply{.status = some_status()}));
    for (int i = 0; i < 2000; ++i) {
        std::string line = good;
        for (int changes = 0; changes < 3; ++changes)
            line[random() % line.size()] = static_cast<char>(random() % 256);
        parse_control_reply(line);  // must neither throw nor read outside
        parse_control_request(line);
    }
}

}  // namespace ddprun
