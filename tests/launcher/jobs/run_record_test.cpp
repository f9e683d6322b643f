#include "launcher/jobs/run_record.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

RunRecord some_run() {
    RunRecord record;
    record.program = "/opt/bin/ddprun";
    record.called = "ddprun";
    record.words = {"--nproc-per-node=2", "sh", "-c", "echo 'x' \"\n\"", ""};
    record.directory = "/data";
    record.variables = {"HOME", "NCCL_DEBUG"};
    record.environment = {{"NCCL_DEBUG", "INFO"}};
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

TEST_CASE("of an environment all names are recorded, and the values of a few families") {
    const Environment environment{{"CUDA_VISIBLE_DEVICES", "0"},
                                  {"DDPRUN_SECRET", "x"},
                                  {"DDPRUN_X", "http://a:p@h"},
                                  {"HOME", "/h/ann"},
                                  {"JOB_DB_PASS", "x"},
                                  {"NCCL_DEBUG", "INFO"},
                                  {"NCCL_TOKEN", "x"}};
    const RecordedVariables recorded = recorded_variables(environment);
    CHECK(recorded.names.size() == environment.size());
    CHECK(recorded.values == Environment{{"CUDA_VISIBLE_DEVICES", "0"},
                                         {"DDPRUN_X", "http://a:(not shown)@h"},
                                         {"NCCL_DEBUG", "INFO"}});
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
          with("\"words\"", "\"word\""), with("\"NCCL_DEBUG\":", "\"NCCL=DEBUG\":"),
          with("\"NCCL_DEBUG\":", "\"\":"), with("\"NCCL_DEBUG\":\"INFO\"", "\"NCCL_DEBUG\":2")}) {
        CAPTURE(text);
        CHECK_FALSE(parse_run_record(text));
    }
}

}  // namespace ddprun
