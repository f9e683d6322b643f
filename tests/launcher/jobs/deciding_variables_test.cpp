#include "launcher/jobs/run_record.hpp"

#include "launcher/cluster/cluster_table.hpp"
#include "tests/launcher/cluster/captured_environment.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("deciding variables: whatever a cluster has told is told by them") {
    for (const auto& file : captured_files()) {
        CapturedEnvironment captured = read_captured(file);
        // In a worker nobody looks at the cluster.
        if (captured.view.environment.contains("TORCHELASTIC_RUN_ID")) continue;
        if (captured.view.environment.contains("DDPRUN_RUN_ID")) continue;
        INFO(file.filename().string());
        const auto before = cluster_lines(derive_cluster(captured.view, captured.request));
        captured.view.environment = deciding_variables(captured.view.environment);
        CHECK(cluster_lines(derive_cluster(captured.view, captured.request)) == before);
    }
}

TEST_CASE("deciding variables: what is kept of an environment") {
    const struct {
        const char* name;
        bool alone, in_worker;
    } rows[] = {{"DDPRUN_NNODES", true, true},
                {"PET_NNODES", true, true},
                {"CUDA_VISIBLE_DEVICES", true, true},
                {"PYTHON_EXEC", true, true},
                {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", true, true},
                {"DDPRUN_SECRET_FILE", false, false},
                {"MASTER_ADDR", true, false},
                {"MASTER_PORT", true, false},
                {"RANK", true, false},
                {"SLURM_NODEID", true, false},
                {"DDPRUN_LIFE", true, false},
                {"DDPRUN_SECRET", false, false},
                {"DDPRUN_MESH_KEY", false, false},
                {"PET_Password", false, false},
                {"SLURM_JWT", false, false},
                {"OMPI_MCA_orte_precondition_transports", false, false},
                {"SM_API_TOKEN", false, false},
                {"PATH", false, false},
                {"HOME", false, false},
                {"WANDB_API_KEY", false, false}};
    for (const auto& row : rows) {
        CAPTURE(row.name);
        const Environment alone{{row.name, "x"}};
        CHECK(deciding_variables(alone).contains(row.name) == row.alone);
        for (const char* mark : {"DDPRUN_RUN_ID", "TORCHELASTIC_RUN_ID"}) {
            const Environment inside{{row.name, "x"}, {mark, "outer-1"}};
            CHECK(deciding_variables(inside).contains(row.name) == row.in_worker);
            CHECK_FALSE(deciding_variables(inside).contains(mark));
        }
    }
}

TEST_CASE("deciding variables: the recorded ones take the place of one's own") {
    const Environment own{{"HOME", "/h"},
                          {"SLURM_NODEID", "3"},
                          {"DDPRUN_SECRET", "s"},
                          {"PET_NNODES", "2"},
                          {"CUDA_VISIBLE_DEVICES", "0"}};
    const Environment recorded{{"PET_NNODES", "1"}, {"MASTER_ADDR", "a"}};
    CHECK(as_recorded(own, recorded) ==
          Environment{{"HOME", "/h"}, {"DDPRUN_SECRET", "s"}, {"PET_NNODES", "1"}, {"MASTER_ADDR", "a"}});
    // The marks by which a job finds what is its own stay.
    const Environment inside{{"DDPRUN_RUN_ID", "outer-1"}, {"DDPRUN_LIFE", "7"}, {"RANK", "1"}};
    CHECK(as_recorded(inside, {}) == Environment{{"DDPRUN_RUN_ID", "outer-1"}, {"DDPRUN_LIFE", "7"}});
}

}  // namespace ddprun
