#include "launcher/cluster/family.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

HostList slurm_list_of(Environment environment, std::string host) {
    return slurm_host_list(
        {.environment = std::move(environment), .host_name = std::move(host), .addresses = {}, .files = {}});
}

}  // namespace

TEST_CASE("a Slurm allocation's list, and who of it this machine is") {
    struct Case {
        Environment environment;
        std::size_t hosts;
        std::optional<int> position;
    };
    const std::vector<Case> cases = {
        {{}, 0, {}},
        {{{"SLURM_JOB_NODELIST", ""}, {"SLURM_NODELIST", ""}}, 0, {}},
        {{{"SLURM_JOB_NODELIST", "gpu[1-3]"}}, 3, 1},
        {{{"SLURM_NODELIST", "gpu[2-5]"}}, 4, 0},
        {{{"SLURM_JOB_NODELIST", ""}, {"SLURM_NODELIST", "gpu[2-5]"}}, 4, 0},
        {{{"SLURM_JOB_NODELIST", "gpu[1-3]"}, {"SLURM_NODELIST", "gpu2"}}, 3, 1},
        // One of the steps of the job, which knows of itself only.
        {{{"SLURM_JOB_NODELIST", "gpu[1-3]"}, {"SLURM_STEP_NODELIST", "gpu2"}}, 3, 1},
        {{{"SLURM_JOB_NODELIST", "n[1-3]"}}, 3, {}},
        {{{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURMD_NODENAME", "n3"}}, 3, 2},
        {{{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURMD_NODENAME", "n4"}}, 3, {}},
        // Brought along from another node.
        {{{"SLURM_JOB_NODELIST", "gpu[1-3]"}, {"SLURMD_NODENAME", "gpu1"}}, 3, 1},
        {{{"SLURMD_NODENAME", "gpu2"}}, 0, {}},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        INFO("case " << i);
        const HostList list = slurm_list_of(cases[i].environment, "gpu2.example.org");
        CHECK(list.hosts.size() == cases[i].hosts);
        CHECK(list.position == cases[i].position);
        CHECK(list.complaint.empty());
    }
}

TEST_CASE("a list that cannot be used is one line") {
    for (const char* variable : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
        const HostList list = slurm_list_of({{variable, "gpu[1-"}, {"SLURMD_NODENAME", "gpu1"}}, "gpu1");
        CHECK(list.hosts.empty());
        CHECK_FALSE(list.position);
        CHECK(list.complaint ==
              std::string(variable) +
                  ": gpu[1-: a '[' without its ']'; passed over, and nodes are numbered by their host names");
    }
}

}  // namespace ddprun
