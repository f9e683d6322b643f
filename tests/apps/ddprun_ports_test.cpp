#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("launch: a job of several nodes with an id and no port may be at one of eight") {
    const auto ports = [](const std::vector<std::string>& more) {
        std::vector<std::string> words{"--rdzv-backend=c10d", "--rdzv-endpoint=h"};
        words.insert(words.end(), more.begin(), more.end());
        words.insert(words.end(), {"--nproc-per-node=1", "--no-python", "p"});
        return resolve_launch(JobPlan(parse_command_line(words, {})), {}).master_ports;
    };
    CHECK(ports({"--nnodes=2", "--rdzv-id=a"}) == 8);
    CHECK(ports({"--nnodes=1:2", "--rdzv-id=a"}) == 8);
    CHECK(ports({"--nnodes=2"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=none"}) == 1);
    CHECK(ports({"--nnodes=1", "--rdzv-id=a"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=a", "--rdzv-endpoint=h:29400"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=a", "--master-port=29400"}) == 1);
    CHECK(ports({"--nnodes=2", "--rdzv-id=a", "--rdzv-backend=static"}) == 1);
}

TEST_CASE("launch: --port-range is FIRST-LAST, and said so in one line where it is not") {
    const auto refusal = [](const std::string& value, const Environment& environment) -> std::string {
        try {
            std::vector<std::string> words;
            if (!value.empty()) words.push_back("--port-range=" + value);
            words.emplace_back("p");
            parse_command_line(words, environment);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "none";
    };
    const std::string must = ": must be FIRST-LAST, two ports from 1 to 65535 in order, like 30000-30100";
    for (const std::string wrong :
         {"0-10", "9-1", "70000", "80", "1-70000", "low-high", "-", "30000-30100,5-6"}) {
        CHECK(refusal(wrong, {}) == "--port-range " + wrong + must);
        CHECK_THAT(refusal("", {{"DDPRUN_PORT_RANGE", wrong}}),
                   Catch::Contains(wrong + must) && Catch::Contains("DDPRUN_PORT_RANGE"));
    }
    CHECK(refusal("30000-30100", {}) == "none");
    CHECK(refusal("7-7", {{"DDPRUN_PORT_RANGE", "nonsense"}}) == "none");
}

TEST_CASE(
    "launch: without a port by number the host takes one of --port-range, which nodes agree on by the job's "
    "id") {
    struct Ports {
        int first, count;
        bool operator==(const Ports&) const = default;
    };
    const auto ports = [](std::vector<std::string> words) {
        words.insert(words.begin(), {"--master-addr=127.0.0.1", "--node-rank=1"});
        words.insert(words.end(), {"--nproc-per-node=1", "--no-python", "p"});
        const LaunchOptions options = resolve_launch(JobPlan(parse_command_line(words, {})), {});
        return Ports{options.master.port, options.master_ports};
    };
    const std::string range = "--port-range=30000-30100";
    CHECK(ports({"--nnodes=2", range}) == Ports{30'000, 1});
    CHECK(ports({"--nnodes=2", range, "--master-port=29500"}) == Ports{29'500, 1});
    CHECK(ports({"--nnodes=2", range, "--rdzv-backend=c10d"}) == Ports{30'000, 1});
    for (const std::string backend : {"static", "c10d"}) {
        for (int job = 0; job < 50; ++job) {
            const std::string id = "--rdzv-id=" + std::to_string(job);
            const Ports found = ports({"--nnodes=2", range, id, "--rdzv-backend=" + backend});
            CHECK(found == ports({"--nnodes=2", range, id, "--rdzv-backend=" + backend}));
            CHECK(found.count == 8);
            CHECK((found.first >= 30'000 && found.first + found.count - 1 <= 30'100));
        }
    }
    // Of a small one most are left to others.
    CHECK(ports({"--nnodes=2", "--port-range=30000-30007", "--rdzv-id=a"}).count == 2);
    CHECK(ports({"--nnodes=2", "--port-range=30000-30000", "--rdzv-id=a"}) == Ports{30'000, 1});
    const LaunchOptions alone =
        resolve_launch(JobPlan(parse_command_line({range, "--no-python", "p"}, {})), {});
    CHECK(alone.master.port == 0);
    CHECK(alone.environment.at("DDPRUN_PORT_RANGE") == "30000-30100");
}

}  // namespace ddprun
