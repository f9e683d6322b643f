#include "launcher/doctor/node_report.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

NodeReport sample_report() {
    return {
        "1.2.3",
        "gpu01",
        {ok_finding("clock", "synchronised"), warning_finding("port", "taken", "give another one", "29500"),
         problem_finding("folder", "hangs", "see which server", "/scratch")}};
}

}  // namespace

TEST_CASE("a node's report is as bad as its worst finding") {
    NodeReport report = sample_report();
    CHECK(state_of(report) == FindingState::problem);
    report.findings.pop_back();
    CHECK(state_of(report) == FindingState::warning);
    report.findings.pop_back();
    CHECK(state_of(report) == FindingState::ok);
    CHECK(state_of(NodeReport{}) == FindingState::ok);
}

TEST_CASE("a node's report has a line for each finding") {
    CHECK(to_text(sample_report()) ==
          "ok       clock: synchronised\n"
          "warning  port 29500: taken; give another one\n"
          "problem  folder /scratch: hangs; see which server\n");
    CHECK(line_of(ok_finding("folder", "fine", "/a\x1b[31m\nb")).find('\n') == std::string::npos);
    CHECK(line_of(ok_finding("folder", "fine", "/a\x1b[31mb")).find('\x1b') == std::string::npos);
}

TEST_CASE("a node's report goes through JSON") {
    const NodeReport report = sample_report();
    const std::string text = to_json(report);
    CHECK(text.find("\"schema\":1,\"state\":\"problem\"") != std::string::npos);
    CHECK(text.find('\n') == text.size() - 1);
    const auto parsed = parse_node_report(text);
    REQUIRE(parsed);
    CHECK(*parsed == report);
}

TEST_CASE("a text of a finding is cut, and made UTF-8, so that others can read it") {
    const NodeReport report{"", "", {ok_finding("folder", std::string(kMaxFindingText + 9, 'x'), "\xff")}};
    const auto parsed = parse_node_report(to_json(report));
    REQUIRE(parsed);
    CHECK(parsed->findings.at(0).text.size() == kMaxFindingText);
    CHECK(parsed->findings.at(0).about == "\xef\xbf\xbd");
}

TEST_CASE("what is no report of a node is refused") {
    const auto with = [](const std::string& members) {
        return "{\"version\":\"\",\"host\":\"\"," + members + "}";
    };
    const std::string finding = R"({"topic":"a","about":"","state":"ok","text":"","remedy":""})";
    CHECK(parse_node_report(with(R"("schema":1,"new":[],"findings":[)" + finding + "]")));
    std::string many = finding;
    for (std::size_t i = 0; i < kMaxFindings; ++i) many += "," + finding;
    for (const std::string& bad :
         {std::string(), std::string("[]"), with(R"("findings":[])"), with(R"("schema":2,"findings":[])"),
          with(R"("schema":1)"), with(R"("schema":1,"findings":[)" + many + "]"),
          with(R"("schema":1,"findings":[{"topic":"a","about":"","state":"odd","text":"","remedy":""}])"),
          // A warning without a way out.
          with(R"("schema":1,"findings":[{"topic":"a","about":"","state":"warning","text":"","remedy":""}])"),
          with(R"("schema":1,"findings":[])") + std::string(kMaxReportText, ' ')}) {
        INFO(bad.substr(0, 200));
        CHECK_FALSE(parse_node_report(bad));
    }
}

}  // namespace ddprun
