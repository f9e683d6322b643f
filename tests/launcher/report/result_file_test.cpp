#include "launcher/report/result_file.hpp"

#include <boost/json.hpp>
#include <csignal>
#include <fstream>

#include "rendezvous/system/small_file.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

Failure failure_of(Failure::Kind kind, std::int64_t pid = 17) {
    Failure failure;
    failure.kind = kind;
    failure.pid = pid;
    return failure;
}

JobResult killed_job() {
    JobResult result{.job_id = "none-1f", .run_id = "none", .entry_name = "train.py", .host = "gpu06"};
    result.node_rank = 1;
    result.nnodes = 2;
    result.outcome = Outcome::failed;
    result.exit_code = 137;
    result.sentence = "train.py failed";
    result.message = "no restart is left";
    Failure failure = failure_of(Failure::Kind::worker_failed, 4242);
    failure.host = "gpu07";
    failure.rank = 5;
    failure.local_rank = 1;
    failure.exit_code = 137;
    failure.signal = SIGKILL;
    failure.unix_time_ms = 1'714'559'696'789;
    failure.last_lines = {"a \"quoted\" line", "\xff\x1b"};
    failure.witness = 2;
    failure.accusation = "died";
    failure.testimony = "rank 5 died: \"x\"";
    failure.others = {{{{0, 3}}, RanksDoing::Manner::waited, "waited in f"}};
    result.first_failure = failure;
    RankEnd lost{.rank = 9, .local_rank = 1, .node_rank = 2, .host = "gpu08"};
    lost.manner = RankEnd::Manner::lost;
    RankEnd stopped{.rank = 0, .pid = 11, .exit_code = 143, .signal = SIGTERM};
    stopped.manner = RankEnd::Manner::stopped;
    stopped.wall_ms = 1500;
    result.ranks = {lost, stopped};
    result.restart_count = 1;
    result.max_restarts = 3;
    result.restarts = {{0, "rank 1: exit code 1", 1'714'559'600'000}};
    result.resize_count = 1;
    result.resizes = {{1, "a node (gpu08) has come", 1'714'559'600'000}};
    result.start_unix_ms = 1'714'559'500'000;
    result.end_unix_ms = 1'714'559'700'000;
    result.survivors = {"pid 18"};
    return result;
}

// What stands between backquotes; the names of enumerations are values of members.
std::vector<std::string> quoted_members(const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at + 1)) {
        const std::size_t end = text.find('`', at + 1);
        const std::string word = text.substr(at + 1, end - at - 1);
        if (!value_of_name<Failure::Kind>(word) && !value_of_name<RankEnd::Manner>(word))
            words.push_back(word);
        at = end;
    }
    return words;
}

// The rows of the table under `## Result file`: its members, and what the second column names.
std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> documented_members() {
    std::ifstream file(DDPRUN_SOURCE_DIR "/apps/ddprun/manual/files.md");
    std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> rows;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## ")) inside = line == "## Result file";
        const std::size_t column = line.find(" | ");
        if (!inside || !line.starts_with("| `") || column == std::string::npos) continue;
        rows.emplace_back(quoted_members(line.substr(0, column)), quoted_members(line.substr(column)));
    }
    return rows;
}

}  // namespace

TEST_CASE("result: the whole truth as JSON") {
    const std::string text = to_json(killed_job());
    CHECK(text.back() == '\n');
    json::value expected = json::parse(R"({
        "schema": 1, "version": "V", "job_id": "none-1f", "run_id": "none", "entry_name": "train.py", "host": "gpu06",
        "node_rank": 1, "nnodes": 2, "outcome": "failed", "exit_code": 137, "sentence": "train.py failed", "message": "no restart is left",
        "start_unix_ms": 1714559500000, "start": "2024-05-01T10:31:40.000Z",
        "end_unix_ms": 1714559700000, "end": "2024-05-01T10:35:00.000Z",
        "first_failure": {
            "kind": "worker_failed", "node_rank": 0, "host": "gpu07", "rank": 5, "local_rank": 1, "pid": 4242,
            "exit_code": 137, "signal": 9, "signal_name": "SIGKILL", "core_dumped": false,
            "time_unix_ms": 1714559696789, "time": "2024-05-01T10:34:56.789Z", "message": "", "error_message": "",
            "traceback": "", "hint": "", "last_lines": ["a \"quoted\" line", "\ufffd\u001b"],
            "witness": 2, "accusation": "died", "testimony": "rank 5 died: \"x\"",
            "others": [{"ranks": [{"first": 0, "last": 3}], "manner": "waited", "doing": "waited in f"
}], "left": []
}
,
        "ranks": [
            {"rank": 0, "local_rank": 0, "node_rank": 0, "host": "", "pid": 11, "manner": "stopped", "exit_code": 143,
             "signal": 15, "signal_name": "SIGTERM", "core_dumped": false, "outlasted_grace": false, "wall_ms": 1500},
            {"rank": 9, "local_rank": 1, "node_rank": 2, "host": "gpu08", "pid": null, "manner": "lost",
             "exit_code": null, "signal": null, "signal_name": null, "core_dumped": false, "outlasted_grace": false, "wall_ms": null}],
        "restart_count": 1, "max_restarts": 3,
        "restarts": [{"round": 0, "reason": "rank 1: exit code 1", "time_unix_ms": 1714559600000,
                      "time": "2024-05-01T10:33:20.000Z"}],
        "resize_count": 1,
        "resizes": [{"round": 1, "reason": "a node (gpu08) has come", "time_unix_ms": 1714559600000,
                     "time": "2024-05-01T10:33:20.000Z"}],
        "survivors": ["pid 18"], "unknown_nodes": [], "unknown_node_count": 0
})");
    expected.as_object()["version"] = DDPRUN_VERSION;
    CHECK(json::parse(text) == expected);
}

TEST_CASE("result: no text has a secret in it") {
    JobResult result = killed_job();
    result.message = "no route to redis://:secret@cache:6379/0";
    result.first_failure->error_message = "db://me:secret@host";
    result.first_failure->last_lines = {"amqp://a:secret@b", "login with password=secret",
                                        "HF_TOKEN='secret'"};
    const std::string text = to_json(result);
    CHECK(text.find("secret") == std::string::npos);
    CHECK(text.find("redis://:(not shown)@cache:6379/0") != std::string::npos);
}

TEST_CASE("result: the README lists the members, in their order, and no other") {
    const json::object root = json::parse(to_json(killed_job())).as_object();
    const auto members = [](const json::value& value) {
        std::vector<std::string> names;
        for (const auto& member : value.as_object()) {
            if (!member.key().ends_with("unix_ms")) names.emplace_back(member.key());
        }
        return names;
    };
    const auto rows = documented_members();
    std::vector<std::string> listed;
    for (const auto& [names, details] : rows) listed.insert(listed.end(), names.begin(), names.end());
    CHECK(listed == members(root));
    for (const char* name : {"first_failure", "ranks", "restarts", "resizes"}) {
        INFO(name);
        const auto row =
            std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.first.back() == name; });
        REQUIRE(row != rows.end());
        const json::value& value = root.at(name);
        CHECK(row->second == members(value.is_array() ? value.as_array().front() : value));
    }
}

TEST_CASE("result: a job without a failure") {
    const json::value result = json::parse(to_json(JobResult{}));
    CHECK(result.at("outcome") == "succeeded");
    CHECK(result.at("first_failure").is_null());
    CHECK(result.at("start").is_null());
    CHECK(result.at("ranks").as_array().empty());
}

TEST_CASE("result: the outcome and its name") {
    using Kind = Failure::Kind;
    struct Row {
        int exit_code;
        std::optional<Failure> cause;
        bool joined;
        Outcome outcome;
        std::string_view name;
    };
    const Row rows[] = {
        {0, std::nullopt, true, Outcome::succeeded, "succeeded"},
        {7, failure_of(Kind::worker_failed), true, Outcome::failed, "failed"},
        {75, failure_of(Kind::worker_failed), true, Outcome::failed, "failed"},
        {127, failure_of(Kind::worker_failed, 0), true, Outcome::not_started, "not_started"},
        {75, failure_of(Kind::signalled), true, Outcome::preempted, "preempted"},
        {75, std::nullopt, true, Outcome::preempted, "preempted"},
        {143, failure_of(Kind::signalled), true, Outcome::signalled, "signalled"},
        {124, failure_of(Kind::overdue), true, Outcome::failed, "failed"},
        {124, failure_of(Kind::hang), true, Outcome::failed, "failed"},
        {69, failure_of(Kind::node_lost), true, Outcome::node_lost, "node_lost"},
        {77, std::nullopt, false, Outcome::not_admitted, "not_admitted"},
        {69, std::nullopt, false, Outcome::not_admitted, "not_admitted"},
        {130, std::nullopt, false, Outcome::signalled, "signalled"},
        {70, std::nullopt, true, Outcome::failed, "failed"},
    };
    for (const Row& row : rows) {
        CHECK(outcome_of(row.exit_code, row.cause, row.joined) == row.outcome);
        CHECK(to_text(row.outcome) == row.name);
    }
}

TEST_CASE("result: written to the file, and a failure to write is one line") {
    TemporaryFolder folder;
    const auto path = folder.path() / "result.json";
    JobResult failed = killed_job();
    CHECK_FALSE(write_result_file(path, failed));
    CHECK(read_small_file(path, 1 << 20).value() == to_json(killed_job()));
    CHECK_FALSE(write_result_file("", failed));
    const std::string trouble = "--result-file '/dev/full' cannot be written: No space left on device";
    CHECK(write_result_file("/dev/full", failed) == trouble);
    CHECK(to_json(failed) == to_json(killed_job()));  // the job's own code is the better one
    JobResult good;
    CHECK(write_result_file("/dev/full", good) == trouble);
    CHECK(good.exit_code == kExitSystem);
    CHECK(good.message == trouble);
}

TEST_CASE("result: what can be known before the job is said before it") {
    TemporaryFolder folder;
    CHECK_FALSE(result_file_complaint(""));
    CHECK_FALSE(result_file_complaint(folder.path() / "result.json"));
    CHECK(std::filesystem::is_empty(folder.path()));
    const std::string missing = (folder.path() / "no" / "folder").string();
    CHECK(result_file_complaint(missing) ==
          "--result-file '" + missing + "' cannot be written: No such file or directory");
}

}  // namespace ddprun
