#include <boost/json.hpp>

#include "apps/cli/option_values.hpp"
#include "apps/ddpctl/command_line.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

// The name of the command that these words give, or the text that they ask for.
std::string parsed(const Words& words) {
    const auto command = parse_control_command(words);
    const auto* text = std::get_if<std::string>(&command);
    return text != nullptr ? *text : std::get<std::unique_ptr<Command>>(command)->name();
}

Job some_job(JobState state) {
    Job job{.id = "none-1f", .folder = "/run/jobs/none-1f", .state = state, .record = {}, .end = {}};
    job.record =
        JobRecord{.id = "none-1f", .job_id = "none-1f", .entry_name = "train\x1b[2J.py", .directory = "/"};
    job.record->command = {"ddprun", "--detach", "train.py"};
    job.record->nnodes = 2;
    job.record->node_rank = 1;
    job.record->workers = 8;
    job.record->pid = 4711;
    if (state == JobState::ended) {
        job.end = JobEnd{.exit_code = 7,
                         .outcome = "failed",
                         .sentence = "train.py failed",
                         .message = "",
                         .end_unix_ms = 1'000};
        job.end->workers = {{.rank = 8, .local_rank = 0, .pid = 11, .exit_code = 7}};
    }
    return job;
}

}  // namespace

TEST_CASE("ddpctl: commands and their options") {
    for (const Words& words :
         {Words{"list"}, Words{"list", "--json"}, Words{"status", "x"}, Words{"status", "--json", "x"},
          Words{"logs", "x"}, Words{"logs", "x", "-f", "--tail", "0"}, Words{"logs", "--follow", "x"},
          Words{"attach", "train-1f2e"}, Words{"events", "-f", "x"},
          Words{"events", "--json", "--follow", "x"}, Words{"kill", "x"},
          Words{"logs", "x", "-n", "3", "--since", "1d"}, Words{"kill", "-9", "x"},
          Words{"kill", "x", "-sigint"}, Words{"kill", "-s", "KILL", "x"},
          Words{"kill", "--signal", "sigint", "x"}, Words{"kill", "--signal=9", "--no-wait", "x"}}) {
        CHECK(parsed(words) == words.front());
    }
    CHECK_THAT(parsed({"--help"}), Catch::Contains("attach"));
    CHECK(parsed({"help"}) == parsed({"--help"}));
    CHECK(parsed({"help", "logs"}) == parsed({"logs", "--help"}));
    CHECK_THAT(parsed({"kill", "--help"}), Catch::Contains("--no-wait"));
    CHECK_THAT(parsed({"--version"}), Catch::StartsWith("ddpctl "));
}

TEST_CASE("ddpctl: wrong command lines") {
    for (const Words& words :
         {Words{}, Words{"x"}, Words{"rerun"}, Words{"status"}, Words{"status", "a", "b"}, Words{"list", "a"},
          Words{"logs", "--tail", "x", "a"}, Words{"logs", "--tail", "-1", "a"},
          Words{"kill", "--signal", "X", "a"}, Words{"kill", "--json", "a"}, Words{"kill", "-99", "a"},
          Words{"kill", "-f", "a"}, Words{"help", "x"}, Words{"status", "-9", "a"},
          Words{"list", "kill", "a"}}) {
        CHECK_THROWS_AS(parse_control_command(words), UsageError);
    }
}

TEST_CASE("ddpctl: an unknown command is named, with what was meant") {
    const auto refusal = [](const Words& words) -> std::string {
        try {
            parse_control_command(words);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "";
    };
    CHECK(refusal({"stauts"}) == "stauts: no such command; did you mean status?");
    CHECK(refusal({"lst", "--json"}) == "lst: no such command; did you mean list?");
    CHECK(refusal({"ps"}) == "ps: no such command; type 'ddpctl list'");
    CHECK(refusal({"stop", "x"}) == "stop: no such command; type 'ddpctl kill ID'");
    CHECK(refusal({"nonsense", "list"}) == "nonsense: no such command; see ddpctl --help");
}

TEST_CASE("ddpctl: ages") {
    CHECK(age_text(-5) == "0s");
    CHECK(age_text(59'999) == "59s");
    CHECK(age_text(60'000) == "1m00s");
    CHECK(age_text(3'599'000) == "59m59s");
    CHECK(age_text(2 * 3'600'000 + 7 * 60'000) == "2h07m");
    CHECK(age_text(std::int64_t{100} * 86'400'000 + 3 * 3'600'000) == "100d03h");
}

TEST_CASE("ddpctl: the list") {
    Job destroyed;
    destroyed.id = "a";
    CHECK(list_text({}, 0) == "ID  STATE  NODE  WORKERS  AGE  PROGRAM\n");
    CHECK(list_text({destroyed, some_job(JobState::running), some_job(JobState::ended)}, 61'000) ==
          "ID       STATE               NODE  WORKERS  AGE    PROGRAM\n"
          "a        lost                ?     ?        ?      ?\n"
          "none-1f  running             1/2   8        1m01s  train.py\n"
          "none-1f  ended, exit code 7  1/2   8        1m01s  train.py\n");
}

TEST_CASE("ddpctl: the status in words") {
    AgentStatus own{.state = "stopping", .job_id = "none-1f", .node = 1};
    own.host = "gpu01";
    own.restart_count = 1;
    own.max_restarts = 3;
    own.workers = {{.rank = 8, .local_rank = 0, .pid = 11}, {.rank = 9, .local_rank = 1, .pid = 12}};
    JobView status = job_view({}, own, {}, "it did not answer");
    REQUIRE(status.nodes.size() == 2);
    const std::string of_both = status_text(some_job(JobState::running), status, 5'000);
    CHECK_THAT(of_both, Catch::Contains("nodes      node 0: unknown: it did not answer\n"
                                        "           node 1 (gpu01): stopping, launcher pid 0\n"
                                        "workers    rank 8 (local rank 0) on node 1 (gpu01), pid 11\n"));
    status.nodes.erase(status.nodes.begin());
    const std::string text = status_text(some_job(JobState::running), status, 5'000);
    CHECK_THAT(text, Catch::Contains("state      running\n") && Catch::Contains("phase      stopping\n"));
    CHECK_THAT(text, Catch::Contains("restarts   1 of 3\n") &&
                         Catch::Contains("command    ddprun --detach train.py\n"));
    CHECK_THAT(text, Catch::Contains("workers    rank 8 (local rank 0), pid 11\n"
                                     "           rank 9 (local rank 1), pid 12\n"));
    status.nodes.front().kill_unix_ms = 16'400;
    CHECK_THAT(status_text(some_job(JobState::running), status, 5'000),
               Catch::Contains("phase      stopping, up to 12 s more (--grace)\n"));
    // What it says is over, or the clocks of the nodes differ.
    CHECK_THAT(status_text(some_job(JobState::running), status, 17'000),
               Catch::Contains("phase      stopping\n"));
    const std::string ended = status_text(some_job(JobState::ended), {}, 5'000);
    CHECK_THAT(ended, Catch::Contains("outcome    failed\nbecause    train.py failed\n") &&
                          Catch::Contains("pid 11: exit code 7\n"));
    CHECK_THAT(status_text(Job{.id = "a", .folder = "/f", .record = {}, .end = {}}, {}, 0),
               Catch::Contains("state      lost\n"));
}

TEST_CASE("ddpctl: events in words, and what is none of ours is passed over") {
    const auto shown = [](std::string_view lines, bool names_node) {
        std::vector<ToldEvent> events;
        add_events(events, lines, 3);
        std::string text;
        for (const ToldEvent& event : events) text += event_text(event, names_node);
        return text;
    };
    CHECK(shown("", false).empty());
    CHECK(shown("nonsense\n{}\n[]\n{\"name\":\"torchelastic\",\"timestamp\":1,\"metadata\":{}}\n"
                "{\"name\":\"ddprun.x\",\"timestamp\":1,\"metadata\":\"{}\"}\n",
                false)
              .empty());
    const std::string line =
        R"({"name":"ddprun.round.\u001b","timestamp":1000,"metadata":{"run_id":"r","round":0,"reason":"a\nb"}})"
        "\n";
    CHECK_THAT(shown(line, false),
               Catch::Contains("1970-01-01") && Catch::Contains("  round.?  round=0  reason=a?b\n"));
    CHECK_THAT(shown(line, true), Catch::Contains("  node 3  round.?  round=0"));
}

TEST_CASE("ddpctl: events come as JSON that moves no cursor, with their times") {
    std::vector<ToldEvent> events;
    add_events(events, "{\"name\":\"x\",\"timestamp\":5}\n\x1b[2J\n{\"name\":\"a\\u001b\"}\n", 1);
    REQUIRE(events.size() == 2);
    CHECK((events[0].unix_ms == 5 && events[0].node == 1));
    CHECK(events[0].line == R"({"name":"x","timestamp":5})");
    CHECK(events[1].line == R"({"name":"a\u001b"})");
}

TEST_CASE("ddpctl: the status as JSON") {
    const std::string text = status_json({some_job(JobState::ended), {}, "{\"exit_code\":7}"});
    CHECK_THAT(text, Catch::Contains(R"("state":"ended")") && Catch::Contains(R"("exit_code":7)") &&
                         Catch::Contains(R"("result":{"exit_code":7})") &&
                         Catch::Contains(R"("schema":1,"id":"none-1f")"));
    CHECK_THAT(status_json({some_job(JobState::lost), {}, "{"}), Catch::Contains(R"("result":null)"));
}

TEST_CASE("ddpctl: of a suspended job the texts say what helps") {
    Job job = some_job(JobState::running);
    job.is_suspended = true;
    const std::string hint =
        "job none-1f is suspended: 'fg' in its shell or 'kill -CONT 4711' lets it go on, 'ddpctl kill "
        "--signal KILL none-1f' ends it";
    CHECK(suspended_text(job) == hint);
    CHECK_THAT(list_text({job}, 0), Catch::Contains("none-1f  suspended  1/2"));
    CHECK_THAT(status_text(job, {}, 0),
               Catch::Contains("state      suspended\n") && Catch::Contains("hint       " + hint + "\n"));
    CHECK_THAT(status_json({job, {}, {}}), Catch::Contains(R"("state":"suspended")"));
}

TEST_CASE("ddpctl: what is not known of a job is null") {
    Job destroyed;
    destroyed.id = "a";
    const auto members = [](const Job& job) {
        return boost::json::parse(status_json({job, {}, {}})).as_object();
    };
    const boost::json::object nothing = members(destroyed);
    for (const char* name : {"name", "job_id", "run_id", "round", "restarts", "max_restarts", "resizes",
                             "started_unix_ms", "world_size", "exit_code", "job", "result"}) {
        CAPTURE(name);
        CHECK(nothing.at(name).is_null());
    }
    const boost::json::object ended = members(some_job(JobState::ended));
    for (const char* name : {"run_id", "round", "resizes", "world_size"}) {
        CAPTURE(name);
        CHECK(ended.at(name).is_null());
    }
    CHECK((ended.at("job_id") == "none-1f" && ended.at("restarts") == 0));
    CHECK(ended.at("ranks").at(0).at("host").is_null());
}

TEST_CASE("ddpctl: the list as JSON has what schema 1 says, and what the status has") {
    CHECK(list_json({}, 0) == "[]\n");
    JobView view{.state = "running"};
    view.world_size = 16;
    const std::string text = list_json({{some_job(JobState::ended), {}, "{}"},
                                        {some_job(JobState::running), view, {}},
                                        {Job{.id = "a", .folder = "/f", .record = {}, .end = {}}, {}, {}}},
                                       61'000);
    const boost::json::array list = boost::json::parse(text).as_array();
    REQUIRE(list.size() == 3);
    for (const auto& job : list) {
        for (const char* name : {"id", "name", "state", "launcher_pid", "nodes", "world_size", "age_s",
                                 "progress", "verdict_kind", "folder", "result", "ranks"}) {
            INFO(name);
            CHECK(job.as_object().contains(name));
        }
        CHECK((job.at("progress").is_null() && job.at("verdict_kind").is_null()));
    }
    CHECK((list[0].at("state") == "ended" && list[0].at("world_size").is_null()));
    CHECK((list[1].at("state") == "running" && list[1].at("world_size") == 16));
    CHECK((list[1].at("launcher_pid") == 4711 && list[1].at("nodes") == 2 && list[1].at("age_s") == 61));
    CHECK((list[2].at("state") == "lost" && list[2].at("launcher_pid").is_null()));
    CHECK((list[2].at("nodes").is_null() && list[2].at("age_s").is_null()));
}

TEST_CASE("ddpctl: a lost job has the time of its last output") {
    Job job = some_job(JobState::lost);
    job.last_output_unix_ms = 1'000;
    CHECK_THAT(status_text(job, {}, 5'000),
               Catch::Contains("lost       after its last output at 1970-01-01 "));
    CHECK_THAT(status_json({job, {}, {}}), Catch::Contains(R"("last_output_unix_ms":1000)"));
}

}  // namespace ddprun
