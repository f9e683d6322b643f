#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/agent/agent_link.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("launch: a list of hosts counts where somebody else numbers this node") {
    const auto launch = [](const std::vector<std::string>& more, const char* list = "gpu[1-3]") {
        std::vector<std::string> words{"--nproc-per-node=1", "--no-python"};
        words.insert(words.begin(), more.begin(), more.end());
        words.emplace_back("p");
        NodeFacts facts;
        facts.host_name = "gpu3";
        facts.environment["SLURM_JOB_NODELIST"] = list;
        return resolve_launch(JobPlan(parse_command_line(words, {})), facts);
    };
    const std::string c10d = "--rdzv-backend=c10d", here = "--rdzv-endpoint=h:1";
    const LaunchOptions options = launch({c10d, here, "--nnodes=3"});
    CHECK(options.host_list.hosts == std::vector<std::string>{"gpu1", "gpu2", "gpu3"});
    CHECK(options.host_list.position == 2);
    const Hello said = hello_of(options, false);
    CHECK((said.list_position == 2 && said.list_size == 3));
    CHECK(server_options_of(options).coordinator.hosts == options.host_list.hosts);
    CHECK(launch({"--rdzv-backend=etcd", here, "--nnodes=2:3"}).host_list.position == 2);
    const LaunchOptions bad = launch({c10d, here, "--nnodes=3"}, "gpu[1-");
    CHECK_THAT(bad.host_list.complaint,
               Catch::StartsWith("SLURM_JOB_NODELIST: ") && Catch::Contains("passed over"));
    CHECK(hello_of(bad, false).list_position == kUnlisted);
    const std::vector<std::vector<std::string>> others = {{c10d, here, "--nnodes=3", "--node-rank=1"},
                                                          {c10d, here, "--nnodes=1"},
                                                          {here, "--nnodes=3"},
                                                          {"--standalone"},
                                                          {}};
    for (const auto& words : others) {
        for (const char* list : {"gpu[1-3]", "gpu[1-"}) {
            const LaunchOptions other = launch(words, list);
            CHECK(other.host_list.hosts.empty());
            CHECK(other.host_list.complaint.empty());
            CHECK(hello_of(other, false).list_position == kUnlisted);
        }
    }
}

}  // namespace ddprun
