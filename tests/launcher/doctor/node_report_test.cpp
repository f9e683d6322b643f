#include "launcher/doctor/node_report.hpp"

#include <random>

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

NodeSummary sample_summary() {
    return {
        {"1.2.3", "gpu01", {ok_finding("clock", "synchronised")}}, {{"python", "3.11.2"}}, "10.0.0.1", 4711};
}

ReachReport sample_reach() {
    return {{{1, 0, Reach::reached, "10.0.0.1:4711", ""}, {1, 2, Reach::silent, "10.0.0.3:4713", ""}},
            {{"gpu02", "stands for no address"}},
            NodeRate{1, 94'000, 900, 2, 48, -12},
            "timed out",
            {2}};
}

NodeList sample_list() { return {{{0, "gpu01", "10.0.0.1", 4711}, {2, "gpu03", "fd00::3", 4713}}}; }

std::string cut(std::string text, std::size_t size) {
    text.resize(size);
    return text;
}

// Of a text that somebody has bent in one place.
template <class Parse>
void bend(const std::string& text, Parse parse) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::minstd_rand random(seed);
    for (std::size_t size = 0; size < text.size(); ++size) CHECK_FALSE(parse(cut(text, size)));
    for (int turn = 0; turn < 500; ++turn) {
        std::string bent = text;
        bent[random() % bent.size()] = static_cast<char>(random());
        parse(bent);  // Whatever it says, it ends.
    }
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
    const auto parsed = parse_node_summary(to_json(NodeSummary{report, {}, "", 0}));
    REQUIRE(parsed);
    CHECK(parsed->report == report);
}

TEST_CASE("a text of a finding is cut, and made UTF-8, so that others can read it") {
    const NodeReport report{"", "", {ok_finding("folder", std::string(kMaxFindingText + 9, 'x'), "\xff")}};
    const auto parsed = parse_node_summary(to_json(NodeSummary{report, {}, "", 0}));
    REQUIRE(parsed);
    CHECK(parsed->report.findings.at(0).text.size() == kMaxFindingText);
    CHECK(parsed->report.findings.at(0).about == "\xef\xbf\xbd");
}

TEST_CASE("what is no report of a node is refused") {
    const auto with = [](const std::string& members) {
        return R"({"report":{"version":"","host":"",)" + members + R"(},"facts":[],"address":"","port":0})";
    };
    const std::string finding = R"({"topic":"a","about":"","state":"ok","text":"","remedy":""})";
    CHECK(parse_node_summary(with(R"("new":[],"findings":[)" + finding + "]")));
    std::string many = finding;
    for (std::size_t i = 0; i < kMaxFindings; ++i) many += "," + finding;
    for (const std::string& bad :
         {std::string(), std::string("[]"), with(R"("schema":1)"), with(R"("findings":[)" + many + "]"),
          with(R"("findings":[{"topic":"a","about":"","state":"odd","text":"","remedy":""}])"),
          // A warning without a way out.
          with(R"("findings":[{"topic":"a","about":"","state":"warning","text":"","remedy":""}])"),
          with(R"("findings":[])") + std::string(kMaxReportText, ' ')}) {
        INFO(bad.substr(0, 200));
        CHECK_FALSE(parse_node_summary(bad));
    }
}

TEST_CASE("what nodes say goes through JSON") {
    CHECK(parse_node_summary(to_json(sample_summary())) == sample_summary());
    CHECK(parse_node_list(to_json(sample_list())) == sample_list());
    CHECK(parse_reach_report(to_json(sample_reach()), 1, 3) == sample_reach());
    CHECK(parse_reach_report(to_json(ReachReport()), 1, 3) == ReachReport());
    bend(to_json(sample_summary()),
         [](const std::string& text) { return parse_node_summary(text).has_value(); });
    bend(to_json(sample_list()), [](const std::string& text) { return parse_node_list(text).has_value(); });
    bend(to_json(sample_reach()),
         [](const std::string& text) { return parse_reach_report(text, 1, 3).has_value(); });
}

TEST_CASE("a node speaks of itself and of nodes that there are") {
    const std::string text = to_json(sample_reach());
    CHECK_FALSE(parse_reach_report(text, 0, 3));
    CHECK_FALSE(parse_reach_report(text, 1, 2));
    ReachReport of_itself = sample_reach();
    of_itself.pairs.front().to = 1;
    CHECK_FALSE(parse_reach_report(to_json(of_itself), 1, 3));
    of_itself.pairs.front().to = -1;
    CHECK_FALSE(parse_reach_report(to_json(of_itself), 1, 3));
    for (const int nobody : {-1, 3}) {
        ReachReport of_nobody = sample_reach();
        of_nobody.culprits.push_back(nobody);
        CHECK_FALSE(parse_reach_report(to_json(of_nobody), 1, 3));
        of_nobody = sample_reach();
        of_nobody.rate->least_with = nobody;
        CHECK_FALSE(parse_reach_report(to_json(of_nobody), 1, 3));
    }
    ReachReport of_another = sample_reach();
    of_another.rate->node = 0;
    CHECK_FALSE(parse_reach_report(to_json(of_another), 1, 3));
}

TEST_CASE("words beyond their limits are refused") {
    NodeSummary summary = sample_summary();
    summary.port = 65'536;
    CHECK_FALSE(parse_node_summary(to_json(summary)));
    CHECK_FALSE(parse_node_summary(to_json(sample_summary()) + std::string(kMaxReportText, ' ')));
    std::string many = to_json(sample_summary());
    const std::string fact = R"({"topic":"python","value":"3.11.2"})";
    std::string facts = fact;
    for (std::size_t i = 0; i < kMaxNodeFacts; ++i) facts += "," + fact;
    many.replace(many.find(fact), fact.size(), facts);
    CHECK_FALSE(parse_node_summary(many));
    NodeList list = sample_list();
    std::swap(list.nodes.front(), list.nodes.back());
    CHECK_FALSE(parse_node_list(to_json(list)));
    list = sample_list();
    list.nodes.back().rank = kMaxMeetingNodes;
    CHECK_FALSE(parse_node_list(to_json(list)));
    ReachReport reach = sample_reach();
    reach.rate->clock_offset_us = -kGreatestNumber - 1;
    CHECK_FALSE(parse_reach_report(to_json(reach), 1, 3));
}

}  // namespace ddprun
