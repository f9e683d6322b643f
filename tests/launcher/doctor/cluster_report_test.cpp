#include "launcher/doctor/cluster_report.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "launcher/doctor/cluster_findings.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::vector<std::string> kThree{"gpu01", "gpu02", "gpu03"};
const std::vector<std::string> kFive{"gpu01", "gpu02", "gpu03", "gpu04", "gpu05"};

NodeSummary word_of(const std::string& host, std::vector<Finding> findings,
                    std::vector<NodeFact> facts = {}) {
    return {{"1.2.3", host, std::move(findings)}, std::move(facts), "10.0.0.1", 1};
}

PairReach reached(int from, int to, std::int64_t sent, std::int64_t received, std::int64_t latency = 50) {
    return {from, to, Reach::reached, "10.0.0.1:1", "", latency, 0, sent, received};
}

PairReach lost(int from, int to, Reach reach, const std::string& error = "") {
    return {from, to, reach, "10.0.0." + std::to_string(to + 1) + ":9", error, {}, {}, {}, {}};
}

// Every two nodes, at the same speed.
std::vector<PairReach> all_pairs(int nodes, std::int64_t mbit_s) {
    std::vector<PairReach> pairs;
    for (int a = 0; a < nodes; ++a) {
        for (int b = 0; b < nodes; ++b) {
            if (a != b) pairs.push_back(reached(a, b, mbit_s, mbit_s));
            if (a > b) pairs.back().sent_mbit_s = pairs.back().received_mbit_s = std::nullopt;
        }
    }
    return pairs;
}

void set_speed(std::vector<PairReach>& pairs, int a, int b, std::int64_t sent, std::int64_t received) {
    for (PairReach& pair : pairs) {
        if (pair.from != a || pair.to != b) continue;
        pair.sent_mbit_s = sent;
        pair.received_mbit_s = received;
    }
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
        {ok_finding("reach", "all"), warning_finding("bandwidth", "1 Gbit/s", "see ethtool", "gpu02")}};
    CHECK(state_of(report) == FindingState::problem);
    CHECK(to_text(report) ==
          "ok       all 3 nodes: gpus\n"
          "ok       reach: all\n"
          "problem  gpu[02-03]: folder /tmp: is full; make room\n"
          "warning  all 3 nodes: clock: late; start chronyd\n"
          "warning  bandwidth gpu02: 1 Gbit/s; see ethtool\n");
}

TEST_CASE("the only node is called by its name") {
    const ClusterReport report{
        {word_of("gpu01", {ok_finding("gpus", "8"), warning_finding("clock", "late", "start chronyd")})},
        {},
        {}};
    CHECK(to_text(report) == "ok       gpu01: gpus\nwarning  gpu01: clock: late; start chronyd\n");
}

TEST_CASE("no more lines than a screen has, and nothing in them that moves a cursor") {
    std::vector<Finding> findings;
    for (int i = 0; i < 100; ++i)
        findings.push_back(warning_finding("port", "taken", "another one", std::to_string(i) + "\x1b[2J\n"));
    const ClusterReport report{{word_of("gpu\x1b[31m\n01", findings), word_of("gpu02", {})}, {}, {}};
    const std::string text = to_text(report);
    CHECK(std::count(text.begin(), text.end(), '\n') == static_cast<std::ptrdiff_t>(kMaxGroupLines));
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.ends_with("and 41 more findings; --json prints all\n"));
}

TEST_CASE("the report of several nodes as JSON") {
    const ClusterReport report{{word_of("gpu01", {ok_finding("gpus", "8")}, {{"gpus", "8"}})},
                               {lost(0, 1, Reach::silent)},
                               {ok_finding("reach", "x")}};
    const auto root = boost::json::parse(to_json(report)).as_object();
    CHECK(root.at("schema") == 1);
    CHECK(root.at("state") == "ok");
    const auto& node = root.at("nodes").as_array().at(0).as_object();
    CHECK(node.at("host") == "gpu01");
    CHECK(node.at("state") == "ok");
    CHECK(node.at("facts").as_array().size() == 1);
    const auto& pair = root.at("pairs").as_array().at(0).as_object();
    CHECK(pair.at("reach") == "silent");
    CHECK(pair.at("latency_us").is_null());
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
    PairReach ahead = reached(0, 1, 1, 1);
    ahead.clock_offset_us = 3'200'000;
    PairReach behind = reached(2, 0, 1, 1);
    behind.clock_offset_us = 45'000'000;
    PairReach between = reached(1, 2, 1, 1);
    between.clock_offset_us = 1'000'000'000;
    CHECK(lines_of_all(clock_findings(kThree, {ahead, behind, between})) ==
          Lines{"warning clock gpu02: 3.2 s ahead of that of gpu01",
                "problem clock gpu03: 45.0 s behind that of gpu01"});
    ahead.clock_offset_us = -12'000;
    CHECK(lines_of_all(clock_findings(kThree, {ahead})) ==
          Lines{"ok clocks: of 1 nodes within 12 ms of that of gpu01"});
    CHECK(clock_findings(kThree, {}).empty());
}

TEST_CASE("who cannot reach whom") {
    auto pairs = all_pairs(3, 1000);
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
                                                   lost(1, 0, Reach::no_answer)})) ==
          Lines{"warning reach a: b cannot reach it at 10.0.0.1:9: connected, but no node of this run has "
                "answered",
                "problem reach b: a cannot reach it at 10.0.0.2:9: refused"});
}

TEST_CASE("a slow node is named, and a slow pair of nodes that are not") {
    CHECK(
        lines_of_all(speed_findings(kThree, all_pairs(3, 94'000))) ==
        Lines{
            "ok bandwidth: median 94.0 Gbit/s by one connection, least 94.0 Gbit/s between gpu01 and gpu02"});
    CHECK(speed_findings(kThree, {lost(0, 1, Reach::silent)}).empty());
    // Of three nodes one: then most pairs are slow.
    auto pairs = all_pairs(3, 94'000);
    set_speed(pairs, 0, 2, 1'100, 94'000);
    set_speed(pairs, 1, 2, 94'000, 900);
    CHECK(lines_of_all(speed_findings(kThree, pairs)).front() ==
          "warning bandwidth gpu03: 1.1 Gbit/s at most, median 94.0 Gbit/s");
    CHECK(speed_findings(kThree, pairs).size() == 2);
    pairs = all_pairs(5, 9'400);
    set_speed(pairs, 1, 3, 9'000, 80);
    CHECK(
        lines_of_all(speed_findings(kFive, pairs)) ==
        Lines{"warning bandwidth from gpu04 to gpu02: 80 Mbit/s, median 9.4 Gbit/s",
              "ok bandwidth: median 9.4 Gbit/s by one connection, least 80 Mbit/s between gpu02 and gpu04"});
    // Two nodes are alike.
    CHECK(speed_findings({"a", "b"}, {reached(0, 1, 10, 94'000)}).size() == 1);
}

TEST_CASE("a node that answers late is named") {
    auto pairs = all_pairs(3, 1000);
    CHECK(lines_of_all(latency_findings(kThree, pairs)) ==
          Lines{"ok latency: median 50 us there and back, most 50 us from gpu01 to gpu02"});
    for (PairReach& pair : pairs) {
        if (pair.from == 2 || pair.to == 2) pair.latency_us = 2'500;
    }
    CHECK(lines_of_all(latency_findings(kThree, pairs)).front() ==
          "warning latency gpu03: 2.5 ms at least, median 50 us");
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
    CHECK(name_findings(kThree, kThree, {{}, {}, {}}).empty());
    const std::string why = "stands for no address: x";
    // Nobody knows any other one; each does without its own.
    CHECK(lines_of_all(name_findings(kThree, kThree,
                                     {{{"gpu02", why}, {"gpu03", why}},
                                      {{"gpu01", why}, {"gpu03", why}},
                                      {{"gpu01", why}, {"gpu02", why}}})) ==
          Lines{"warning names gpu[01-03]: on gpu[01-03]: stands for no address: x"});
    CHECK(lines_of_all(name_findings(kThree, kThree, {{{"gpu03", why}}, {}, {}})) ==
          Lines{"warning names gpu03: on gpu[01,03]: stands for no address: x"});
    const std::string hangs = "who other nodes are was not answered in time";
    CHECK(lines_of_all(name_findings(kThree, kThree, {{{"gpu03", hangs}}, {{"gpu01", hangs}}, {}})) ==
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
        {word_of("gpu1", {nameless("gpu1"), full(1)}), word_of("gpu2", {nameless("gpu2"), full(2)})}, {}, {}};
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
    report = {{}, {}, {}};
    for (int i = 0; i < 20; ++i)
        report.findings.push_back(problem_finding("reach", "no", "see", std::to_string(i)));
    const std::string text = to_text(report);
    CHECK(std::count(text.begin(), text.end(), '\n') == 9);
    CHECK(text.ends_with("problem  reach: and 12 more; --json prints all\n"));
}

}  // namespace ddprun
