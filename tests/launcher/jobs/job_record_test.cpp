#include "launcher/jobs/job_record.hpp"

#include <random>

#include "launcher/report/result_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {
namespace {

JobRecord some_record() {
    JobRecord record{.id = "none-1f", .job_id = "none-1f", .entry_name = "train.py", .directory = "/data"};
    record.command = {"ddprun", "--detach", "train.py", "--lr=0.1"};
    record.node_rank = 1;
    record.nnodes = 2;
    record.workers = 8;
    record.pid = 4711;
    record.start_time = 18'446'744'073'709'551'615U;
    record.start_unix_ms = 1'714'559'500'000;
    return record;
}

}  // namespace

TEST_CASE("a job record comes back as it was written") {
    CHECK(parse_job_record(to_json(some_record())) == some_record());
    JobRecord odd = some_record();
    odd.command = {"quotes \" and \n lines", ""};
    CHECK(parse_job_record(to_json(odd)) == odd);
    odd.command = {"\xff"};
    CHECK(parse_job_record(to_json(odd))->command == std::vector<std::string>{"\uFFFD"});
}

TEST_CASE("whatever a job record holds comes back, and no part of it does") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues values(seed, false);
    for (int i = 0; i < 500; ++i) {
        auto record = values.make<JobRecord>();
        record.pid = 1 + static_cast<pid_t>(values.below(100'000));
        const std::string text = to_json(record);
        REQUIRE(parse_job_record(text) == record);
        REQUIRE_FALSE(parse_job_record(text.substr(0, values.below(text.size() - 1))));
    }
}

TEST_CASE("a long command line is recorded up to its limit") {
    JobRecord record = some_record();
    record.command = {std::string(kMaxCommandBytes, 'x'), "y"};
    CHECK(parse_job_record(to_json(record))->command ==
          std::vector<std::string>{record.command[0], std::string("...")});
}

TEST_CASE("what is no job record is none") {
    const std::string good = to_json(some_record());
    auto with = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        return text;
    };
    for (const std::string& text :
         {std::string(), std::string("{}"), std::string("[1]"), good.substr(0, good.size() / 2),
          with("4711", "-1"), with("4711", "0"), with("4711", "\"4711\""), with("4711", "99999999999"),
          with("\"train.py\"", "7"), with("\"pid\"", "\"pod\""), with("[\"ddprun\"", "[1")}) {
        INFO(text);
        CHECK_FALSE(parse_job_record(text));
    }
}

TEST_CASE("the end of a job is what the result file says, with this node's workers") {
    JobResult result{.job_id = "none-1f", .node_rank = 1, .nnodes = 2, .outcome = Outcome::failed};
    result.exit_code = 7;
    result.sentence = "train.py failed; first failure: rank 1";
    result.message = "no restart is left";
    result.end_unix_ms = 1'714'559'700'000;
    result.restart_count = 2;
    result.max_restarts = 3;
    RankEnd elsewhere{.rank = 0, .local_rank = 0, .node_rank = 0, .pid = 10};
    RankEnd here{.rank = 1, .local_rank = 0, .node_rank = 1, .pid = 11, .exit_code = 7};
    RankEnd lost{.rank = 2, .local_rank = 1, .node_rank = 1};
    lost.manner = RankEnd::Manner::lost;
    result.ranks = {elsewhere, here, lost};

    const auto end = parse_job_end(to_json(result));
    REQUIRE(end);
    CHECK(end->exit_code == 7);
    CHECK(end->outcome == "failed");
    CHECK(end->sentence == "train.py failed; first failure: rank 1");
    CHECK(end->message == "no restart is left");
    CHECK(end->end_unix_ms == 1'714'559'700'000);
    CHECK(end->restart_count == 2);
    CHECK(end->max_restarts == 3);
    const WorkerStatus worker{.rank = 1, .local_rank = 0, .pid = 11, .exit_code = 7};
    CHECK(end->workers == std::vector<WorkerStatus>{worker});

    CHECK_FALSE(parse_job_end(""));
    CHECK_FALSE(parse_job_end("{\"exit_code\":1}"));
    CHECK_FALSE(parse_job_end("7"));
}

TEST_CASE("every job has a name that a person can type, and that names a folder") {
    const std::pair<const char*, const char*> kNames[] = {
        {"train.py", "train"},
        {"/data/my runs/train.py", "train"},
        {"run.sh", "run"},
        {"a/b/", "job"},
        {"", "job"},
        {".py", "job"},
        {".hidden", "_hidden"},
        {"-f", "_f"},
        {"pkg.mod", "pkg.mod"},
        {"-", "job"},
        {"\xc3\xa4.py", "job"},
        {"a b\n\x1b\xc3\xa4", "a_b_"},
        {"a_program_with_a_long_name", "a_program_with_a_lo"},
    };
    for (const auto& [entry, begin] : kNames) {
        CAPTURE(entry);
        const std::string name = job_name(entry, "none-1f");
        CHECK(name.size() <= kMaxJobName);
        CHECK(name.substr(0, name.size() - 5) == begin);
        CHECK(name[name.size() - 5] == '-');
        CHECK(name.find_first_not_of("0123456789abcdef", name.size() - 4) == std::string::npos);
    }
    CHECK(job_name("train.py", "none-1f") == job_name("/elsewhere/train.py", "none-1f"));
    CHECK_THAT(job_name("Gr\xc3\xb6\xc3\x9f"
                        "e",
                        "none-1f"),
               Catch::StartsWith("Gr_e-"));
    CHECK_THAT(job_name("TOKEN=hf_abcdefghijklmnop12345.sh", "none-1f"),
               Catch::StartsWith("TOKEN_") && !Catch::Contains("abc"));
    CHECK(job_name("train.py", "none-1f") != job_name("train.py", "none-20"));
}

}  // namespace ddprun
