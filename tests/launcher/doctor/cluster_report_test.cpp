#include "launcher/doctor/cluster_report.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "launcher/doctor/cluster_findings.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::vector<std::string> kThree{"gpu01", "gpu02", "gpu03"};

NodeSummary word_of(const std::string& host, std::vector<Finding> findings,
                    std::vector<NodeFact> facts = {}) {
    return {{"1.2.3", host, std::move(findings)}, std::move(facts), "10.0.0.1", 1};
}

PairReach lost(int from, int to, Reach reach, const std::string& error = "") {
    return {from, to, reach, "10.0.0." + std::to_string(to + 1) + ":9", error};
}

// Each of every two nodes reaches the other one.
std::vector<PairReach> all_pairs(int nodes) {
    std::vector<PairReach> pairs;
    for (int a = 0; a < nodes; ++a) {
        for (int b = 0; b < nodes; ++b) {
            if (a != b) pairs.push_back({a, b, Reach::reached, "10.0.0.1:1", ""});
        }
    }
    return pairs;
}

// Nodes at the same speed.
std::vector<NodeRate> all_rates(int nodes, std::int64_t mbit_s) {
    std::vector<NodeRate> rates;
    for (int node = 0; node < nodes; ++node)
        rates.push_back({node, mbit_s, mbit_s, node == 0 ? 1 : 0, 50, {}});
    return rates;
}

std::vector<std::string> lines_of_all(const std::vector<Finding>& findings) {
    std::vector<std::string> lines;
    for (const Finding& finding : findings) {
        CHECK(is_sound(finding));
        lines.push_back(std::string(name_of_value(finding.state)) + " " +
                        (finding.about.empty() ? finding.topic : finding.topic + " " + finding.about) + ": " +
                        finding.text);
    }
    return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("findings of several nodes that are the same are one line") {
    const Finding full = problem_finding("folder", "is full", "make room", "/tmp");
    const Finding fine = ok_finding("folder", "fine", "/tmp");
    const Finding late = warning_finding("clock", "late", "start chronyd");
    const ClusterReport report{
        {word_of("gpu01", {ok_finding("gpus", "8"), fine, late}),
         word_of("gpu02", {ok_finding("gpus", "4"), full, late}),
         word_of("gpu03", {ok_finding("gpus", "8"), full, late})},
        {},
        {{0, 9'400, 900, 1, 48, {}}, {1, 940, 900, 0, 2'500, 7}, {2, 9'400, 910, 1, 50, -7}},
        {ok_finding("reach", "all"), warning_finding("bandwidth", "1 Gbit/s", "see ethtool", "gpu02")}};
    CHECK(state_of(report) == FindingState::problem);
    CHECK(to_text(report) ==
          "ok       all 3 nodes: gpus\n"
          "ok       reach: all\n"
          "problem  gpu[02-03]: folder /tmp: is full; make room\n"
          "warning  all 3 nodes: clock: late; start chronyd\n"
          "warning  bandwidth gpu02: 1 Gbit/s; see ethtool\n"
          "rate       940 Mbit/s each way, latency   2.5 ms: gpu02\n"
          "rate       9.4 Gbit/s each way, latency    48 us: gpu01\n"
          "rate       9.4 Gbit/s each way, latency    50 us: gpu03\n");
}

TEST_CASE("the only node is called by its name") {
    const ClusterReport report{
        {word_of("gpu01", {ok_finding("gpus", "8"), warning_finding("clock", "late", "start chronyd")})},
        {},
        {},
        {}};
    CHECK(to_text(report) == "ok       gpu01: gpus\nwarning  gpu01: clock: late; start chronyd\n");
}

TEST_CASE("no more lines than a screen has, and nothing in them that moves a cursor") {
    std::vector<Finding> findings;
    for (int i = 0; i < 100; ++i)
        findings.push_back(warning_finding("port", "taken", "another one", std::to_string(i) + "\x1b[2J\n"));
    ClusterReport report{{word_of("gpu\x1b[31m\n01", findings), word_of("gpu02", {})}, {}, {}, {}};
    const std::string text = to_text(report);
    CHECK(std::count(text.begin(), text.end(), '\n') == static_cast<std::ptrdiff_t>(kMaxGroupLines));
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.ends_with("and 41 more findings; --json prints all\n"));
    report = {{}, {}, all_rates(100, 9'400), {}};
    for (int node = 0; node < 100; ++node)
        report.nodes.push_back(word_of("gpu\x1b" + std::to_string(node), {}));
    const std::string table = to_text(report);
    CHECK(std::count(table.begin(), table.end(), '\n') == static_cast<std::ptrdiff_t>(kMaxRateLines) + 1);
    CHECK(table.find('\x1b') == std::string::npos);
    CHECK(table.ends_with("and 84 nodes that are no slower; --json prints all\n"));
}

TEST_CASE("the report of several nodes as JSON") {
    const ClusterReport report{{word_of("gpu01", {ok_finding("gpus", "8")}, {{"gpus", "8"}})},
                               {lost(0, 1, Reach::silent)},
                               {{0, 940, 900, 1, 48, {}}},
                               {ok_finding("reach", "x")}};
    const auto root = boost::json::parse(to_json(report)).as_object();
    CHECK(root.at("schema") == 2);
    CHECK(root.at("state") == "ok");
    const auto& node = root.at("nodes").as_array().at(0).as_object();
    CHECK(node.at("host") == "gpu01");
    CHECK(node.at("state") == "ok");
    CHECK(node.at("facts").as_array().size() == 1);
    const auto& pair = root.at("pairs").as_array().at(0).as_object();
    CHECK(pair.at("reach") == "silent");
    const auto& rate = root.at("rates").as_array().at(0).as_object();
    CHECK(rate.at("mbit_s") == 940);
    CHECK(rate.at("clock_offset_us").is_null());
    CHECK(root.at("findings").as_array().size() == 1);
}

TEST_CASE("in what nodes differ") {
    const auto with = [](const std::string& host, const std::string& torch, const std::string& kernel) {
        return word_of(host, {}, {{"glibc", "2.36"}, {"pytorch", torch}, {"kernel", kernel}});
    };
    CHECK(lines_of_all(difference_findings(
              kThree, {with("", "2.6.0", "6.1"), with("", "", "6.1"), with("", "2.6.0", "6.2")})) ==
          Lines{"ok nodes_alike: glibc 2.36",
                "warning nodes_differ pytorch: 2.6.0 on gpu[01,03], none on gpu02",
                "ok nodes_differ kernel: 6.1 on gpu[01-02], 6.2 on gpu03"});
    CHECK(lines_of_all(
              difference_findings(kThree, {with("", "", "6.1"), with("", "", "6.1"), with("", "", "6.1")})) ==
          Lines{"ok nodes_alike: glibc 2.36, pytorch none, kernel 6.1"});
}

TEST_CASE("clocks are put beside node 0's") {
    auto rates = all_rates(3, 1);
    CHECK(clock_findings(kThree, rates).empty());
    rates[1].clock_offset_us = 3'200'000;
    rates[2].clock_offset_us = -45'000'000;
    CHECK(lines_of_all(clock_findings(kThree, rates)) ==
          Lines{"warning clock gpu02: 3.2 s ahead of that of gpu01",
                "problem clock gpu03: 45.0 s behind that of gpu01"});
    rates[1].clock_offset_us = -12'000;
    rates[2].clock_offset_us = std::nullopt;
    CHECK(lines_of_all(clock_findings(kThree, rates)) ==
          Lines{"ok clocks: of 1 nodes within 12 ms of that of gpu01"});
}

TEST_CASE("which node cannot reach which other one") {
    auto pairs = all_pairs(3);
    CHECK(lines_of_all(reach_findings(kThree, pairs)) ==
          Lines{"ok reach: each of 3 nodes reaches each other one"});
    CHECK(reach_findings({"gpu01"}, {}).empty());
    const auto replace = [&pairs](const PairReach& other) {
        for (PairReach& pair : pairs) {
            if (pair.from == other.from && pair.to == other.to) pair = other;
        }
    };
    replace(lost(0, 1, Reach::silent));
    CHECK(lines_of_all(reach_findings(kThree, pairs)) ==
          Lines{"problem reach gpu02: gpu01 cannot reach it at 10.0.0.2:9: no answer, as behind a firewall "
                "that drops it"});
    replace(lost(2, 1, Reach::silent));
    replace(lost(1, 2, Reach::unreachable, "No route to host"));
    CHECK(lines_of_all(reach_findings(kThree, pairs)) ==
          Lines{"problem reach gpu02: none of the others can reach it at 10.0.0.2:9: no answer, as behind a "
                "firewall that drops it",
                "problem reach gpu03: gpu02 cannot reach it at 10.0.0.3:9: no way there (No route to host)"});
    pairs.pop_back();
    CHECK(lines_of_all(reach_findings(kThree, pairs)).back() == "warning reach: 1 of 6 ways were not tried");
    CHECK(lines_of_all(reach_findings({"a", "b"}, {lost(0, 1, Reach::refused, "Connection refused"),
                                                   {1, 0, Reach::reached, "", ""}})) ==
          Lines{"problem reach b: a cannot reach it at 10.0.0.2:9: refused"});
}

TEST_CASE("what was not measured is said, and why") {
    const auto lines = [](const std::vector<std::string>& labels, const std::vector<ReachReport>& reports) {
        return lines_of_all(unmeasured_findings(labels, reports));
    };
    const ReachReport good{{}, {}, all_rates(1, 9'400).front(), "", {}};
    CHECK(lines(kThree, {good, good, good}).empty());
    // Another line says that it is silent.
    CHECK(lines(kThree, {good, {}, good}).empty());
    CHECK(lines({"gpu01"}, {{}}).empty());
    CHECK(lines(kThree, {{}, {}, {}}) ==
          Lines{"warning rates: not measured, since not all nodes reach each other"});
    CHECK(lines(kThree, {good, {{}, {}, {}, "timed out", {0, 2}}, {{}, {}, {}, "left", {1}}}) ==
          Lines{"warning rates gpu[01,03]: not all were measured: timed out"});
}

TEST_CASE("a slow node is named") {
    auto rates = all_rates(3, 94'000);
    CHECK(
        lines_of_all(speed_findings(kThree, rates)) ==
        Lines{
            "ok bandwidth: median 94.0 Gbit/s each way at one time, least 94.0 Gbit/s between gpu01 and gpu02"});
    CHECK(speed_findings(kThree, {}).empty());
    // All others have one slow swap, that with the slow node.
    rates = {{0, 94'000, 1'100, 2, 50, {}}, {1, 93'000, 900, 2, 50, {}}, {2, 1'100, 900, 1, 50, {}}};
    CHECK(
        lines_of_all(speed_findings(kThree, rates)) ==
        Lines{
            "warning bandwidth gpu03: 1.1 Gbit/s at most, median 93.0 Gbit/s",
            "ok bandwidth: median 93.0 Gbit/s each way at one time, least 900 Mbit/s between gpu02 and gpu03"});
    // A quarter of the median is not slow; and two nodes are alike.
    rates = {{0, 400, 100, 2, 50, {}}, {1, 400, 400, 0, 50, {}}, {2, 100, 100, 0, 50, {}}};
    CHECK(speed_findings(kThree, rates).size() == 1);
    CHECK(speed_findings({"a", "b"}, {{0, 94'000, 94'000, 1, 50, {}}, {1, 10, 10, 0, 50, {}}}).size() == 1);
}

TEST_CASE("a node that answers late is named") {
    auto rates = all_rates(3, 1000);
    CHECK(lines_of_all(latency_findings(kThree, rates)) ==
          Lines{"ok latency: median 50 us there and back, most 50 us at gpu01"});
    rates[2].latency_us = 2'500;
    CHECK(lines_of_all(latency_findings(kThree, rates)) ==
          Lines{"warning latency gpu03: 2.5 ms at least, median 50 us",
                "ok latency: median 50 us there and back, most 2.5 ms at gpu03"});
    rates[2].latency_us = 900;
    CHECK(latency_findings(kThree, rates).size() == 1);
}

TEST_CASE("names that other nodes do not know") {
    const std::vector<ListedNode> peers{{0, "gpu01", "10.0.0.1", 1},
                                        {1, "gpu02", "10.0.0.2", 1},
                                        {2, "gpu03", "10.0.0.3", 1},
                                        {3, "gpu04", "10.0.0.4", 1}};
    const std::vector<NameFacts> names{{AnswerEnd::answered, {"10.0.0.1"}, ""},
                                       {AnswerEnd::answered, {}, "Name or service not known"},
                                       {AnswerEnd::hangs, {}, ""},
                                       {AnswerEnd::answered, {"127.0.1.1"}, ""}};
    const std::vector<UnknownName> unknown = unknown_names(peers, names);
    CHECK(unknown == std::vector<UnknownName>{{"gpu02", "stands for no address: Name or service not known"},
                                              {"gpu03", "who other nodes are was not answered in time"},
                                              {"gpu04", "stands for 127.0.1.1, that node itself"}});
    const auto names_of = [](const std::vector<std::vector<UnknownName>>& by_node) {
        std::vector<ReachReport> reports;
        for (const auto& names : by_node) reports.push_back({{}, names, {}, "", {}});
        return lines_of_all(name_findings(kThree, kThree, reports));
    };
    CHECK(names_of({{}, {}, {}}).empty());
    const std::string why = "stands for no address: x";
    // Nobody knows any other one; each does without its own.
    CHECK(names_of({{{"gpu02", why}, {"gpu03", why}},
                    {{"gpu01", why}, {"gpu03", why}},
                    {{"gpu01", why}, {"gpu02", why}}}) ==
          Lines{"warning names gpu[01-03]: on gpu[01-03]: stands for no address: x"});
    CHECK(names_of({{{"gpu03", why}}, {}, {}}) ==
          Lines{"warning names gpu03: on gpu[01,03]: stands for no address: x"});
    const std::string hangs = "who other nodes are was not answered in time";
    CHECK(names_of({{{"gpu03", hangs}}, {{"gpu01", hangs}}, {}}) ==
          Lines{"warning names: on gpu[01-02]: who other nodes are was not answered in time"});
}

TEST_CASE("a node's own name is no difference, and many words for one thing are one line") {
    const auto nameless = [](const std::string& host) {
        return warning_finding("host_name", host + " stands for no address",
                               "give --master-addr 10.0.0.1, or add a line for " + host + "0", "");
    };
    const auto full = [](int free) {
        return problem_finding("folder", std::to_string(free) + " bytes are free", "make room", "/tmp");
    };
    ClusterReport report{
        {word_of("gpu1", {nameless("gpu1"), full(1)}), word_of("gpu2", {nameless("gpu2"), full(2)})},
        {},
        {},
        {}};
    CHECK(to_text(report) ==
          "problem  gpu1: folder /tmp: 1 bytes are free; make room\n"
          "problem  gpu2: folder /tmp: 2 bytes are free; make room\n"
          "warning  gpu1: host_name: gpu1 stands for no address; give --master-addr 10.0.0.1, or add a line "
          "for gpu10\n"
          "warning  gpu2: host_name: gpu2 stands for no address; give --master-addr 10.0.0.1, or add a line "
          "for gpu20\n");
    for (NodeSummary& node : report.nodes)
        node.report.findings.front() =
            warning_finding("host_name", node.report.host + " is unknown", "see <address>");
    for (int i = 3; i < 9; ++i) report.nodes.push_back(word_of("gpu" + std::to_string(i), {full(i)}));
    CHECK(to_text(report) ==
          "problem  all 8 nodes: folder /tmp: 1 bytes are free; make room\n"
          "warning  gpu[1-2]: host_name: <host> is unknown; see <address>\n");
    report = {};
    for (int i = 0; i < 20; ++i)
        report.findings.push_back(problem_finding("reach", "no", "see", std::to_string(i)));
    const std::string text = to_text(report);
    CHECK(std::count(text.begin(), text.end(), '\n') == 9);
    CHECK(text.ends_with("problem  reach: and 12 more; --json prints all\n"));
}

}  // namespace ddprun
