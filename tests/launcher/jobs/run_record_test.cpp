#include "launcher/jobs/job_folder.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

RunRecord some_run() {
    RunRecord record;
    record.program = "/opt/bin/ddprun";
    record.called = "ddprun";
    record.words = {"--nproc-per-node=2", "sh", "-c", "echo 'x' \"\n\"", ""};
    record.directory = "/data";
    record.environment = {{"PET_NNODES", "2"}, {"SLURM_STEP_NODELIST", "n[1-2]"}};
    record.version = "0.1.0";
    record.host = "n1";
    record.start_unix_ms = 1'714'559'500'000;
    record.job_id = "none-1f";
    record.node_rank = -1;
    return record;
}

}  // namespace

TEST_CASE("a run record comes back as it was written") {
    CHECK(parse_run_record(to_json(some_run())) == some_run());
    const std::string text = to_json(some_run());
    for (std::size_t size = 0; size + 1 < text.size(); ++size)
        REQUIRE_FALSE(parse_run_record(text.substr(0, size)));
}

TEST_CASE("a run record says whether it is known byte for byte") {
    CHECK(parse_run_record(to_json(some_run()))->is_exact);
    for (const auto spoil : {+[](RunRecord& record) { record.words[0] = "\xff"; },
                             +[](RunRecord& record) { record.directory = "/\xff"; },
                             +[](RunRecord& record) { record.is_exact = false; },
                             +[](RunRecord& record) { record.environment["PET_ROLE"] = "\xff"; }}) {
        RunRecord record = some_run();
        spoil(record);
        CHECK_FALSE(parse_run_record(to_json(record))->is_exact);
    }
}

TEST_CASE("an environment is recorded without secrets, and is the one of the run that follows") {
    Environment told{{"PATH", "/bin"}, {"SLURM_JOB_ID", "7"}, {"PET_NNODES", "2"}};
    Environment all = told;
    for (const char* name :
         {"DDPRUN_SECRET", "DDPRUN_SECRET_FILE", "DDPRUN_MESH_KEY", "PET_Password", "SLURM_JWT",
          "OMPI_MCA_orte_precondition_transports", "SM_API_TOKEN", "WANDB_API_KEY"})
        all[name] = "x";
    CHECK(without_secrets(all) == told);
    // This shell's variables are not mixed with the run's, but for its own secrets and the job that it is in.
    const Environment own{
        {"HOME", "/h"}, {"SLURM_NODEID", "3"}, {"DDPRUN_SECRET", "s"}, {"DDPRUN_RUN_ID", "outer-1"}};
    told["DDPRUN_RUN_ID"] = "outer-0";
    Environment again = told;
    again["DDPRUN_SECRET"] = "s";
    again["DDPRUN_RUN_ID"] = "outer-1";
    CHECK(as_recorded(own, told) == again);
    CHECK(as_recorded({}, told) == told);
}

TEST_CASE("what is no run record is none") {
    const std::string good = to_json(some_run());
    const auto with = [&good](const std::string& old, const std::string& text) {
        std::string changed = good;
        changed.replace(changed.find(old), old.size(), text);
        return changed;
    };
    for (const std::string& text :
         {std::string("{}"), std::string("[]"), std::string(), with("\"ddprun run\"", "\"another's run\""),
          with("\"words\"", "\"word\""), with("\"/opt/bin/ddprun\"", "\"ddprun\""),
          with("\"--nproc", "\"\\u0000--nproc"), with("\"PET_NNODES\"", "\"PET=NNODES\""),
          with("\"PET_NNODES\"", "\"\""), with("\"PET_NNODES\":\"2\"", "\"PET_NNODES\":2")}) {
        CAPTURE(text);
        CHECK_FALSE(parse_run_record(text));
    }
}

TEST_CASE("a run record of a version before, which had no job's id") {
    std::string text = to_json(some_run());
    const std::string member = "\"job_id\":\"none-1f\",";
    text.erase(text.find(member), member.size());
    RunRecord expected = some_run();
    expected.job_id = std::nullopt;
    CHECK(parse_run_record(text) == expected);
}

TEST_CASE("the newest run of several, and the record of it") {
    const auto record = [](std::int64_t start, std::optional<std::string> job, int node, std::string host) {
        RunRecord made = some_run();
        made.start_unix_ms = start;
        made.job_id = std::move(job);
        made.node_rank = node;
        made.host = std::move(host);
        return made;
    };
    CHECK(newest_run({record(1, "a", 0, "h")}, "x") == 0);
    CHECK(newest_run({record(3, "a", 0, "h"), record(5, "b", 0, "h"), record(4, "c", 0, "h")}, "x") == 1);
    // Of several nodes the first one, whenever it began; else the own one.
    CHECK(newest_run({record(7, "b", 1, "h"), record(5, "b", 0, "g"), record(6, "a", 0, "h")}, "h") == 1);
    CHECK(newest_run({record(7, "b", 1, "g"), record(5, "b", 2, "h"), record(6, "a", 0, "h")}, "h") == 1);
    CHECK(newest_run({record(7, "b", 1, "g"), record(5, "b", 2, "h"), record(6, "a", 0, "h")}, "x") == 0);
    // Of versions before each is a run of its own.
    CHECK(newest_run({record(7, std::nullopt, 1, "g"), record(5, std::nullopt, 0, "h")}, "h") == 0);
}

}  // namespace ddprun
