#include "launcher/features/failure_judge.hpp"

#include <boost/json.hpp>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Verdict = Judgement::Answer;

Judgement answer_of(std::string_view said) {
    const auto judgement = parse_answer(said);
    REQUIRE(judgement);
    return *judgement;
}

}  // namespace

TEST_CASE("answers are one word, or exclude and a node, in the first line") {
    CHECK(answer_of("restart").answer == Verdict::restart);
    CHECK(answer_of("stop\n").answer == Verdict::stop);
    CHECK(answer_of("stop\r\n").answer == Verdict::stop);
    CHECK(answer_of("  restart \nstop\nwhatever").answer == Verdict::restart);
    CHECK(answer_of("exclude\t12\n") == Judgement{0, Verdict::exclude, 12});
    CHECK(answer_of("exclude 0") == Judgement{0, Verdict::exclude, 0});
    for (const char* bad :
         {"", "\n", "\nrestart", "Restart", "restart 1", "stop it", "exclude", "exclude -1", "exclude x",
          "exclude 1 2", "exclude 99999999999", "exclude1", "none", "restart\vstop"}) {
        INFO(bad);
        CHECK_FALSE(parse_answer(bad));
    }
}

TEST_CASE("a question is one object in one line: the job's members, then the failure's") {
    Failure failure{.kind = Failure::Kind::overdue, .node_rank = 2, .host = "gpu07"};
    failure.rank = 5;
    failure.message = "of 7 s\nand a \xff";
    failure.last_lines = {"one", "two"};
    const std::string text = to_json({"night", "night-1f", 3, 2, 9, 4}, failure);
    CHECK(text.find('\n') == text.size() - 1);
    const auto root = boost::json::parse(text).as_object();
    CHECK(root.at("run_id") == "night");
    CHECK(root.at("job_id") == "night-1f");
    CHECK(root.at("round") == 3);
    CHECK(root.at("restarts") == 2);
    CHECK(root.at("max_restarts") == 9);
    CHECK(root.at("nodes") == 4);
    CHECK(root.at("kind") == "overdue");
    CHECK(root.at("node_rank") == 2);
    CHECK(root.at("host") == "gpu07");
    CHECK(root.at("rank") == 5);
    CHECK(root.at("local_rank") == -1);
    CHECK(root.at("message") == "of 7 s\nand a \uFFFD");
    CHECK(root.at("last_lines").as_array().size() == 2);
}

}  // namespace ddprun
