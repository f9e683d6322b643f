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
    record.environment = {{"PET_NNODES", "2"}, {"SLURM_STEP_NODELIST", "n[1-2]"}};
    record.version = "0.1.0";
    record.host = "n1";
    record.start_unix_ms = 1'714'559'500'000;
    record.run_id = "none";
    record.nnodes = 2;
    record.node_rank = -1;
    record.workers = 2;
    record.master_addr = "n1";
    record.master_port = 29500;
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

TEST_CASE("the nodes of a folder have a file each") {
    CHECK(run_file_name(1, 0, "h") == "run.json");
    CHECK(run_file_name(2, 0, "h") == "run.json");
    CHECK(run_file_name(2, 1, "h") == "run.1.json");
    CHECK(run_file_name(2, -1, "h") == "run.h.json");
    CHECK(run_file_name(2, -1, "../h") == "run..._h.json");
}

}  // namespace ddprun
