#include "launcher/report/failure_cause.hpp"

#include <boost/json.hpp>
#include <csignal>
#include <random>

#include "launcher/harmless_text.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace json = boost::json;

// As PyTorch's @record writes it.
const std::string kNested =
    R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "Traceback:\n  line 3\n", )"
    R"("timestamp": "1700000000"}}})";

Failure failure_of(const WorkerError& error) {
    Failure failure;
    failure.exit_code = 7;
    failure.unix_time_ms = 1'700'000'001'999;
    failure.error_message = error.message;
    failure.traceback = error.traceback;
    return failure;
}

json::value root_cause(const Failure& failure, const std::string& file) {
    return json::parse(root_cause_file(failure, file).value());
}

}  // namespace

TEST_CASE("error file: both forms, and times as text or number") {
    struct Row {
        std::string text, message, traceback;
        std::optional<std::int64_t> time;
    };
    const Row rows[] = {
        {kNested, "ValueError: boom", "Traceback:\n  line 3\n", 1'700'000'000},
        {R"({"message": {"message": "m", "extraInfo": {"timestamp": 12}}})", "m", "", 12},
        {R"({"message": {"message": "m"}})", "m", "", std::nullopt},
        {R"({"message": {"extraInfo": {"py_callstack": "t"}}})", "", "t", std::nullopt},
        {R"({"message": {"message": "m", "extraInfo": "odd"}})", "m", "", std::nullopt},
        {R"({"message": "flat", "timestamp": 1700000000})", "flat", "", 1'700'000'000},
        {R"({"message": "flat", "timestamp": "1700000000"})", "flat", "", 1'700'000'000},
        {R"({"message": "flat", "timestamp": "soon"})", "flat", "", std::nullopt},
        {R"({"message": "flat", "timestamp": null})", "flat", "", std::nullopt},
        {R"({"message": "flat"})", "flat", "", std::nullopt},
        {R"({"message": ["a", 1]})", R"(["a",1])", "", std::nullopt},
        {R"({"message": 5})", "5", "", std::nullopt},
    };
    for (const Row& row : rows) {
        INFO(row.text);
        CHECK(parse_error_file(row.text) == WorkerError{row.message, row.traceback, row.time, row.text});
    }
}

TEST_CASE("error file: what cannot be understood is said") {
    CHECK(parse_error_file("boom\nmore").trouble == "its error file is no JSON; it begins with: boom");
    CHECK(parse_error_file("{\"message\": \"half").trouble ==
          "its error file is no JSON; it begins with: {\"message\": \"half");
    CHECK(parse_error_file("{}").trouble == "its error file has no member 'message'; it begins with: {}");
    CHECK(parse_error_file("[1]").trouble == "its error file has no member 'message'; it begins with: [1]");
    CHECK(parse_error_file(std::string(1000, '[')).trouble.starts_with("its error file is no JSON"));
    CHECK(parse_error_file("boom").file.empty());
}

TEST_CASE("error file: texts are cut so that a message takes them, and are UTF-8") {
    const std::string long_text(3 * kMaxControlText, 'x');
    const WorkerError error =
        parse_error_file(R"({"message": {"message": ")" + long_text +
                         R"(", "extraInfo": {"py_callstack": "begin )" + long_text + R"( end"}}})");
    CHECK(error.message.size() <= kMaxControlText);
    CHECK(error.traceback.size() <= kMaxControlText);
    CHECK_THAT(error.traceback, Catch::StartsWith("begin ") && Catch::EndsWith(" end"));
    CHECK(parse_error_file("{\"message\": \"\xff\"}").message == "\xEF\xBF\xBD");
}

TEST_CASE("error file: reading one") {
    TemporaryFolder folder;
    CHECK_FALSE(read_error_file(folder.path() / "nothing"));
    CHECK_FALSE(read_error_file(folder.file("empty", "")));
    CHECK_FALSE(read_error_file(folder.file("blank", " \n")));
    CHECK(read_error_file(folder.file("good", kNested))->message == "ValueError: boom");
    CHECK(read_error_file(folder.path())->trouble == "its error file cannot be read: Invalid argument");
    CHECK(read_error_file(folder.file("large", std::string(kMaxErrorFile + 1, ' ')))->trouble ==
          "its error file is larger than 1048576 bytes");
}

TEST_CASE("root cause: the worker's file with its exit code inside the nested form") {
    const Failure failure = failure_of(parse_error_file(kNested));
    json::value expected = json::parse(kNested);
    expected.at("message").as_object()["errorCode"] = 7;
    CHECK(root_cause(failure, kNested) == expected);

    Failure killed = failure;
    killed.exit_code = 137;
    killed.signal = SIGKILL;
    CHECK(root_cause(killed, kNested).at("message").at("errorCode") == -9);

    const std::string extra = R"({"message": {"message": "m", "errorCode": 1, "own": [1]}, "more": true})";
    CHECK(root_cause(failure_of(parse_error_file(extra)), extra) ==
          json::parse(R"({"message": {"message": "m", "errorCode": 7, "own": [1]}, "more": true})"));
}

TEST_CASE("root cause: the flat form is passed on as it is") {
    const std::string flat = R"({"message": "flat", "timestamp": 12})";
    CHECK(root_cause(failure_of(parse_error_file(flat)), flat) == json::parse(flat));
}

TEST_CASE("root cause: of another node's worker it is made of what is known") {
    const json::value made = root_cause(failure_of(parse_error_file(kNested)), "");
    CHECK(made == json::parse(R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack":
                                 "Traceback:\n  line 3\n", "timestamp": "1700000001"}, "errorCode": 7}})"));
}

TEST_CASE("root cause: nothing without an error file of the worker") {
    CHECK_FALSE(root_cause_file(Failure{}, ""));
    TemporaryFolder folder;
    CHECK_FALSE(write_root_cause(folder.path() / "own", Failure{}, ""));
    CHECK_FALSE(std::filesystem::exists(folder.path() / "own"));
}

TEST_CASE("root cause: it replaces what is there, and a failure to write is one line") {
    TemporaryFolder folder;
    const std::string own = folder.file("own", "old");
    const Failure failure = failure_of(parse_error_file(kNested));
    CHECK_FALSE(write_root_cause(own, failure, kNested));
    CHECK(read_error_file(own)->message == "ValueError: boom");
    CHECK(write_root_cause(folder.path() / "no" / "own", failure, kNested) ==
          "cannot write TORCHELASTIC_ERROR_FILE '" + (folder.path() / "no" / "own").string() +
              "': No such file or directory");
}

TEST_CASE("error file: damaged ones never do more than say so") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int repeat = 0; repeat < 2000; ++repeat) {
        std::string text = kNested;
        for (auto damages = 1 + random() % 5; damages > 0; --damages) {
            const auto at = random() % text.size();
            if (random() % 3 == 0) {
                text.erase(at, 1 + random() % 5);
            } else {
                text[at] = random() % 2 == 0 ? static_cast<char>(random()) : "{}[]\",:\\0"[random() % 9];
            }
        }
        const WorkerError error = parse_error_file(text);
        REQUIRE(valid_utf8(error.message) == error.message);
        REQUIRE(valid_utf8(error.traceback) == error.traceback);
        if (auto cause = root_cause_file(failure_of(error), error.file)) {
            json::error_code wrong;
            json::parse(*cause, wrong);
            REQUIRE_FALSE(wrong);
        }
    }
}

}  // namespace ddprun
