#include <csignal>

#include "apps/ddpctl/command_line.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "apps/ddprun/option_values.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

template <class Command>
Command parsed(const Words& words) {
    return std::get<Command>(parse_control_command(words));
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
        job.end = JobEnd{.exit_code = 7, .outcome = "failed", .message = "", .end_unix_ms = 1'000};
        job.end->workers = {{.rank = 8, .local_rank = 0, .pid = 11, .running = false, .exit_code = 7}};
    }
    return job;
}

}  // namespace

TEST_CASE("ddpctl: commands and their options") {
    CHECK(std::holds_alternative<ListCommand>(parse_control_command({"list"})));
    CHECK(parsed<StatusCommand>({"status", "x"}).id == "x");
    CHECK_FALSE(parsed<StatusCommand>({"status", "x"}).json);
    CHECK(parsed<StatusCommand>({"status", "--json", "x"}).json);
    CHECK_FALSE(parsed<LogsCommand>({"logs", "x"}).tail);
    CHECK(parsed<LogsCommand>({"logs", "x", "-f", "--tail", "0"}).tail == std::uint64_t{0});
    CHECK(parsed<LogsCommand>({"logs", "--follow", "x"}).follow);
    CHECK(parsed<AttachCommand>({"attach", "none-1f.0"}).id == "none-1f.0");
    CHECK(parsed<KillCommand>({"kill", "x"}).signal == SIGTERM);
    CHECK(parsed<KillCommand>({"kill", "x"}).wait);
    CHECK(parsed<KillCommand>({"kill", "--signal", "sigint", "x"}).signal == SIGINT);
    CHECK(parsed<KillCommand>({"kill", "--signal=9", "--no-wait", "x"}).signal == SIGKILL);
    CHECK_FALSE(parsed<KillCommand>({"kill", "--no-wait", "x"}).wait);
    CHECK_THAT(parsed<ShowCommand>({"--help"}).text, Catch::Contains("attach"));
    CHECK_THAT(parsed<ShowCommand>({"kill", "--help"}).text, Catch::Contains("--no-wait"));
    CHECK_THAT(parsed<ShowCommand>({"--version"}).text, Catch::StartsWith("ddpctl "));
}

TEST_CASE("ddpctl: wrong command lines") {
    for (const Words& words :
         {Words{}, Words{"x"}, Words{"status"}, Words{"status", "a", "b"}, Words{"list", "a"},
          Words{"logs", "--tail", "x", "a"}, Words{"logs", "--tail", "-1", "a"},
          Words{"kill", "--signal", "X", "a"}, Words{"kill", "--json", "a"}, Words{"list", "kill", "a"}}) {
        CHECK_THROWS_AS(parse_control_command(words), UsageError);
    }
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
    AgentStatus status{.state = "stopping", .restart_count = 1, .max_restarts = 3};
    status.workers = {{.rank = 8, .local_rank = 0, .pid = 11}, {.rank = 9, .local_rank = 1, .pid = 12}};
    const std::string text = status_text(some_job(JobState::running), status, 5'000);
    CHECK_THAT(text, Catch::Contains("state      running\n") && Catch::Contains("phase      stopping\n"));
    CHECK_THAT(text, Catch::Contains("restarts   1 of 3\n") &&
                         Catch::Contains("command    ddprun --detach train.py\n"));
    CHECK_THAT(text, Catch::Contains("workers    rank 8 (local rank 0), pid 11\n"
                                     "           rank 9 (local rank 1), pid 12\n"));
    const std::string ended = status_text(some_job(JobState::ended), {}, 5'000);
    CHECK_THAT(ended, Catch::Contains("outcome    failed\n") && Catch::Contains("pid 11: exit code 7\n"));
    CHECK_THAT(status_text(Job{.id = "a", .folder = "/f", .record = {}, .end = {}}, {}, 0),
               Catch::Contains("state      lost\n"));
}

TEST_CASE("ddpctl: the status as JSON") {
    const std::string text = status_json(some_job(JobState::ended), {}, "{\"exit_code\":7}");
    CHECK_THAT(text, Catch::Contains(R"("state":"ended","exit_code":7)") &&
                         Catch::Contains(R"("result":{"exit_code":7})") &&
                         Catch::Contains(R"("status":null)"));
    CHECK_THAT(status_json(some_job(JobState::lost), {}, "{"), Catch::Contains(R"("result":null)"));
}

}  // namespace ddprun
