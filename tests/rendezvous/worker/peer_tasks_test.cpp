#include "rendezvous/worker/peer_tasks.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Environment with(Environment environment, const Environment& more) {
    for (const auto& [name, value] : more) environment[name] = value;
    return environment;
}

// What sbatch sets for its script and all below it, for two nodes with four tasks each.
const Environment kBatchScript = {{"SLURM_JOB_ID", "77"},         {"SLURM_JOB_NUM_NODES", "2"},
                                  {"SLURM_NNODES", "2"},          {"SLURM_NTASKS", "8"},
                                  {"SLURM_NPROCS", "8"},          {"SLURM_TASKS_PER_NODE", "4(x2)"},
                                  {"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_JOB_NODELIST", "n[1-2]"},
                                  {"SLURM_PROCID", "0"},          {"SLURM_NODEID", "0"},
                                  {"SLURM_LOCALID", "0"}};

Environment slurm_step(const char* tasks, const char* nodes, const char* task) {
    return with(kBatchScript, {{"SLURM_STEP_ID", "0"},
                               {"SLURM_STEP_NUM_TASKS", tasks},
                               {"SLURM_STEP_NUM_NODES", nodes},
                               {"SLURM_STEP_NODELIST", "n[1-2]"},
                               {"SLURM_PROCID", task}});
}

Environment open_mpi(const char* size, const char* local_size, const char* rank) {
    return {{"OMPI_COMM_WORLD_SIZE", size},
            {"OMPI_COMM_WORLD_LOCAL_SIZE", local_size},
            {"OMPI_COMM_WORLD_RANK", rank},
            {"OMPI_COMM_WORLD_NODE_RANK", "0"},
            {"PMIX_RANK", rank}};
}

std::string line_for(const Environment& environment) {
    const auto peers = find_peer_tasks(environment);
    return peers ? advice(*peers) : "";
}

}  // namespace

TEST_CASE("peer tasks: where nobody has started several, there are none") {
    const Environment rows[] = {
        {},
        kBatchScript,               // sbatch, and a shell of salloc on the login node
        slurm_step("1", "1", "0"),  // srun -n1, and a shell of salloc within the allocation
        slurm_step("1", "2", "0"),
        open_mpi("1", "1", "0"),
        with(kBatchScript, open_mpi("1", "1", "0")),
        {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}},
        {{"FLUX_JOB_SIZE", "1"}, {"FLUX_JOB_NNODES", "1"}},
        {{"MV2_COMM_WORLD_SIZE", "1"}},
        // Half of what a step sets, as after ssh with some variables passed on.
        {{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "1"}},
        {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
        // Set by hand, for programs of their own.
        {{"WORLD_SIZE", "8"}, {"RANK", "3"}},
    };
    for (const Environment& environment : rows) {
        CAPTURE(environment);
        CHECK(line_for(environment).empty());
    }
}

TEST_CASE("peer tasks: what is no number is passed over") {
    for (const char* wrong : {"", " ", "two", "2x", "-2", "0", "2.0", "99999999999999"}) {
        CAPTURE(wrong);
        CHECK(line_for({{"SLURM_STEP_NUM_TASKS", wrong}}).empty());
        CHECK(line_for({{"OMPI_COMM_WORLD_SIZE", wrong}, {"PMI_SIZE", wrong}}).empty());
        // The next launcher's word counts then.
        const auto peers = find_peer_tasks({{"OMPI_COMM_WORLD_SIZE", wrong}, {"SLURM_STEP_NUM_TASKS", "2"}});
        REQUIRE(peers);
        CHECK(peers->evidence == "SLURM_STEP_NUM_TASKS=2");
    }
    CHECK_FALSE(find_peer_tasks({{"PMI_SIZE", "2"}, {"PMI_RANK", "x"}})->task);
    CHECK_FALSE(find_peer_tasks({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}})->task);
    CHECK(find_peer_tasks({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}})->task == 1);
}

TEST_CASE("peer tasks: the line says which variable tells so, and what to write") {
    struct Row {
        Environment environment;
        std::vector<std::string> parts;
    };
    const Row rows[] = {
        {{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}},
         {"this is task 1 of 2 of a Slurm step (SLURM_STEP_NUM_TASKS=2)",
          "give --nnodes=2 --node-rank=$SLURM_NODEID --master-addr=HOST", "or --standalone"}},
        {{{"SLURM_STEP_NUM_NODES", "3"}},
         {"this is one of 3 tasks of a Slurm step (SLURM_STEP_NUM_NODES=3)", "give --nnodes=3"}},
        {slurm_step("2", "2", "0"), {"task 0 of 2", "--nnodes=2 --node-rank=$SLURM_NODEID", "bash -c"}},
        {slurm_step("8", "2", "5"),
         {"task 5 of 8", "start one task on each node (srun --ntasks-per-node=1)",
          "--nnodes=2 --node-rank=$SLURM_NODEID"}},
        {slurm_step("4", "1", "3"), {"task 3 of 4", "one ddprun with --nproc-per-node=4", "or --standalone"}},
        {open_mpi("2", "2", "1"),
         {"task 1 of 2 of an Open MPI job (OMPI_COMM_WORLD_SIZE=2)", "one ddprun with --nproc-per-node=2"}},
        {open_mpi("2", "1", "1"), {"give --nnodes=2 --node-rank=$OMPI_COMM_WORLD_RANK --master-addr=HOST"}},
        {open_mpi("8", "4", "1"), {"(mpirun --map-by ppr:1:node)", "--nnodes=2"}},
        {{{"PMI_SIZE", "4"}, {"PMI_RANK", "2"}, {"MPI_LOCALNRANKS", "2"}},
         {"task 2 of 4 of an MPI job (PMI_SIZE=4)", "(mpiexec -ppn 1)", "--nnodes=2 --node-rank=$PMI_RANK"}},
        {{{"PMI_SIZE", "2"}, {"PMI_LOCAL_SIZE", "1"}, {"PALS_RANKID", "1"}, {"PALS_NODEID", "1"}},
         {"task 1 of 2 of a PALS job (PMI_SIZE=2)", "--nnodes=2 --node-rank=$PALS_NODEID"}},
        {{{"MV2_COMM_WORLD_SIZE", "2"}}, {"one of 2 tasks of an MVAPICH job", "$MV2_COMM_WORLD_RANK"}},
        {{{"JSM_NAMESPACE_SIZE", "2"}}, {"one of 2 tasks of a jsrun job", "$JSM_NAMESPACE_RANK"}},
        {{{"HOROVOD_SIZE", "2"}, {"HOROVOD_LOCAL_SIZE", "2"}},
         {"one of 2 tasks of a horovodrun job", "--nproc-per-node=2"}},
        {{{"FLUX_JOB_SIZE", "6"}, {"FLUX_JOB_NNODES", "3"}, {"FLUX_TASK_RANK", "4"}},
         {"task 4 of 6 of a Flux job (FLUX_JOB_SIZE=6)", "(flux run --tasks-per-node=1)", "--nnodes=3"}},
    };
    for (const Row& row : rows) {
        const std::string line = line_for(row.environment);
        CAPTURE(line);
        CHECK(line.find('\n') == std::string::npos);
        for (const std::string& part : row.parts) CHECK_THAT(line, Catch::Contains(part));
    }
}

TEST_CASE("peer tasks: the innermost launcher's word counts") {
    // mpirun's helper on another node is a task of a step of its own.
    CHECK(find_peer_tasks(with(slurm_step("1", "1", "0"), open_mpi("2", "1", "1")))->evidence ==
          "OMPI_COMM_WORLD_SIZE=2");
    CHECK(line_for(with(slurm_step("3", "3", "1"), open_mpi("1", "1", "0"))).empty());
    CHECK(find_peer_tasks(with(slurm_step("2", "2", "1"), {{"PMI_SIZE", "2"}}))->tasks == 2);
}

TEST_CASE("peer tasks: a worker of ddprun or torchrun has its agent's variables, and is none of the tasks") {
    for (const char* name : {"TORCHELASTIC_RUN_ID", "DDPRUN_RUN_ID"}) {
        CHECK(line_for(with(slurm_step("2", "2", "1"), {{name, "x"}})).empty());
        CHECK(line_for(with(open_mpi("2", "2", "1"), {{name, "x"}})).empty());
    }
    // Variables of torchrun's kind without a launcher of that kind are no sign of it.
    CHECK_FALSE(line_for(with(slurm_step("2", "2", "1"), {{"RANK", "1"}, {"WORLD_SIZE", "2"}})).empty());
}

}  // namespace ddprun
