#include "rendezvous/worker/worker_env.hpp"

#include <cstdlib>
#include <set>

#include "rendezvous/base/error.hpp"
#include "rendezvous/worker/mpirun_machine.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Catch::Matchers::Contains;

WorkerIdentity example() {
    WorkerIdentity identity;
    identity.rank = 5;
    identity.local_rank = 1;
    identity.world_size = 8;
    identity.local_world_size = 4;
    identity.group_rank = 1;
    identity.group_world_size = 2;
    identity.role = "trainer";
    identity.role_rank = 3;
    identity.role_world_size = 6;
    identity.master_addr = "node-a";
    identity.master_port = 29500;
    identity.host_addr = "node-0";
    identity.run_id = "job7";
    identity.job_id = "job7-abc";
    identity.start_unix_s = 1'795'235'522;
    identity.round = 2;
    identity.restart_count = 1;
    identity.max_restarts = 3;
    return identity;
}

// The message of the failure, which must be of the kind "malformed".
std::string refusal(const Environment& environment) {
    try {
        read_worker_place(environment);
    } catch (const boost::system::system_error& error) {
        CHECK(error.code() == Errc::malformed);
        return error.what();
    }
    return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the worker environment is exactly this table") {
    const Environment expected = {
        {"DDPRUN_MASTER_ADDR", "node-0"},
        {"DDPRUN_ROUND", "2"},
        {"DDPRUN_RUN_ID", "job7-abc"},
        {"DDPRUN_START_TIME", "1795235522"},
        {"GROUP_RANK", "1"},
        {"GROUP_WORLD_SIZE", "2"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "node-a"},
        {"MASTER_PORT", "29500"},
        {"RANK", "5"},
        {"ROLE_NAME", "trainer"},
        {"ROLE_RANK", "3"},
        {"ROLE_WORLD_SIZE", "6"},
        {"TORCHELASTIC_MAX_RESTARTS", "3"},
        {"TORCHELASTIC_RESTART_COUNT", "1"},
        {"TORCHELASTIC_RUN_ID", "job7"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
        {"WORLD_SIZE", "8"},
    };
    CHECK(worker_environment({}, example()) == expected);
}

TEST_CASE("what is only there at times is the worker's own, or not there") {
    const Environment outer = {{"DDPRUN_LIFE", "1:2:3"},
                               {"DDPRUN_RESTART_REASON", "an outer job's"},
                               {"DDPRUN_MESH_KEY", "an outer job's"},
                               {"DDPRUN_NODE_ADDR", "10.0.0.1"}};
    const Environment without = worker_environment(outer, example());
    CHECK(without.count("DDPRUN_LIFE") == 0);
    CHECK(without.count("DDPRUN_RESTART_REASON") == 0);
    CHECK(without.count("DDPRUN_MESH_KEY") == 0);
    CHECK(without.count("DDPRUN_NODE_ADDR") == 0);
    WorkerIdentity identity = example();
    identity.life = "7:8:1";
    identity.restart_reason = "rank 1";
    identity.mesh_key = "00ff";
    identity.node_addr = "10.0.0.2";
    const Environment with = worker_environment(outer, identity);
    CHECK(with.at("DDPRUN_LIFE") == "7:8:1");
    CHECK(with.at("DDPRUN_RESTART_REASON") == "rank 1");
    CHECK(with.at("DDPRUN_MESH_KEY") == "00ff");
    CHECK(with.at("DDPRUN_NODE_ADDR") == "10.0.0.2");
}

TEST_CASE("the addresses of nodes are ddprun's, or not said") {
    WorkerIdentity identity = example();
    identity.node_addr = "10.0.0.2";
    Environment environment = worker_environment({}, identity);
    CHECK(read_worker_place(environment).node_addr == "10.0.0.2");
    CHECK(read_worker_place(environment).host_addr == "node-0");
    environment["DDPRUN_NODE_ADDR"] = "no address";
    CHECK(read_worker_place(environment).node_addr.empty());
    const Environment of_mpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                                   {"OMPI_COMM_WORLD_SIZE", "1"},
                                   {"DDPRUN_NODE_ADDR", "10.0.0.2"},
                                   {"DDPRUN_MASTER_ADDR", "10.0.0.1"}};
    CHECK(read_worker_place(of_mpirun).node_addr.empty());
    CHECK(read_worker_place(of_mpirun).host_addr.empty());
}

TEST_CASE("ranks of mpirun and srun whom nobody has told a meeting place find one") {
    Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_NAMESPACE", "1938096129"},
                          {"PMIX_SERVER_TMPDIR", "/tmp/ompi/1"}};
    CHECK(read_worker_place(mpirun).meeting_file == "/tmp/ompi/1/ddprun-1938096129");
    mpirun["MASTER_ADDR"] = "node-a";
    mpirun["MASTER_PORT"] = "29500";
    CHECK(read_worker_place(mpirun).meeting_file.empty());
    CHECK(read_worker_place(mpirun).master_addr == "node-a");
    mpirun.erase("MASTER_ADDR");
    CHECK_THROWS_WITH(read_worker_place(mpirun), Contains("MASTER_ADDR is not set"));
    mpirun.erase("MASTER_PORT");
    mpirun["OMPI_COMM_WORLD_SIZE"] = "4";  // on other hosts, too, where nobody reads this one's files
    CHECK_THROWS_WITH(read_worker_place(mpirun), Contains("MASTER_ADDR is not set"));
    mpirun["OMPI_MCA_orte_hnp_uri"] = "1938096129.0;tcp://10.0.2.15,192.168.1.4:36347;tcp6://[fd00::2]:55765";
    CHECK(read_worker_place(mpirun).mpirun_addresses == std::vector<std::string>{"10.0.2.15", "192.168.1.4"});
    std::set<std::uint16_t> ports;
    constexpr unsigned kJobs = 2000;
    for (unsigned job = 0; job < kJobs; ++job) {
        mpirun["PMIX_NAMESPACE"] = std::to_string((job / 4 + 29573) * 65536U + job % 4 + 1);
        ports.insert(read_worker_place(mpirun).master_port);
    }
    CHECK(ports.size() == kJobs);
    CHECK(*ports.begin() >= 10000);
    CHECK(*ports.rbegin() < 30000);
    mpirun["PMIX_NAMESPACE"] = "no number";
    CHECK_THROWS_WITH(read_worker_place(mpirun), Contains("MASTER_ADDR is not set"));

    Environment srun = {
        {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "70"}, {"SLURM_STEP_ID", "3"}};
    for (const auto& [list, first] : {std::pair{"gpu[01-03,07]", "gpu01"},
                                      {"gpu7,gpu9", "gpu7"},
                                      {"r[1,3]n[2-5]-ib,x", "r1n2-ib"},
                                      {"node", "node"}}) {
        srun["SLURM_STEP_NODELIST"] = list;
        const WorkerPlace place = read_worker_place(srun);
        CHECK(place.master_addr == first);
        CHECK(place.master_port == 10000 + 70 * 31 + 3);
    }
    for (const char* list : {"", "[", "gpu[", "a b", ","}) {
        srun["SLURM_STEP_NODELIST"] = list;
        if (std::string(list) != "gpu[") CHECK_THROWS(read_worker_place(srun));
    }
    srun.erase("SLURM_STEP_ID");  // a batch script is no step of so many tasks
    srun["SLURM_STEP_NODELIST"] = "node";
    CHECK_THROWS_WITH(read_worker_place(srun), Contains("MASTER_ADDR is not set"));
}

TEST_CASE("the parent's variables go through, and the identity wins over stale ones") {
    const Environment parent = {{"HOME", "/h"},
                                {"EMPTY", ""},
                                {"RANK", "99"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                {"NCCL_ASYNC_ERROR_HANDLING", "0"},
                                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};
    const Environment worker = worker_environment(parent, example());
    CHECK(worker.at("HOME") == "/h");
    CHECK(worker.at("EMPTY").empty());
    CHECK(worker.at("RANK") == "5");
    CHECK(worker.at("TORCHELASTIC_USE_AGENT_STORE") == "True");
    CHECK(worker.at("NCCL_ASYNC_ERROR_HANDLING") == "0");
    CHECK(worker.at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("what was written can be read") {
    const WorkerPlace place = read_worker_place(worker_environment({}, example()));
    CHECK(place.rank == 5);
    CHECK(place.world_size == 8);
    CHECK(place.local_rank == 1);
    CHECK(place.local_world_size == 4);
    CHECK(place.master_addr == "node-a");
    CHECK(place.master_port == 29500);
    CHECK(place.agent_hosts_store);
    CHECK(place.run_id == "job7");
    CHECK(place.restart_count == 1);
}

TEST_CASE("the calling process's environment") {
    REQUIRE(::setenv("DDPRUN_TEST_VALUE", "a=b\nc", 1) == 0);
    CHECK(current_environment().at("DDPRUN_TEST_VALUE") == "a=b\nc");
    ::unsetenv("DDPRUN_TEST_VALUE");
    CHECK(current_environment().count("DDPRUN_TEST_VALUE") == 0);
}

TEST_CASE("without any launcher there is one rank alone") {
    const WorkerPlace place = read_worker_place({{"HOME", "/h"}});
    CHECK(place.rank == 0);
    CHECK(place.world_size == 1);
    CHECK(place.local_world_size == 1);
    CHECK_FALSE(place.agent_hosts_store);
    CHECK(place.run_id == "none");
    CHECK(read_worker_place({{"WORLD_SIZE", "1"}}).world_size == 1);
}

TEST_CASE("variables set by hand need no more than four") {
    const WorkerPlace place = read_worker_place(
        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "1"}});
    CHECK(place.rank == 1);
    CHECK(place.world_size == 2);
    CHECK(place.local_rank == 0);
    CHECK(place.master_addr == "fe80::1");
    CHECK_FALSE(place.agent_hosts_store);
}

TEST_CASE("only the exact word True says that the agent hosts the store") {
    Environment environment = worker_environment({}, example());
    for (const char* text : {"False", "true", "1", ""}) {
        environment["TORCHELASTIC_USE_AGENT_STORE"] = text;
        CHECK_FALSE(read_worker_place(environment).agent_hosts_store);
    }
}

TEST_CASE("Open MPI and Slurm tell the place in their own words") {
    const Environment master = {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
    Environment mpi = master;
    mpi.insert({{"OMPI_COMM_WORLD_RANK", "3"},
                {"OMPI_COMM_WORLD_SIZE", "4"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
    WorkerPlace place = read_worker_place(mpi);
    CHECK(place.rank == 3);
    CHECK(place.world_size == 4);
    CHECK(place.local_rank == 1);
    CHECK(place.local_world_size == 2);

    Environment slurm = master;
    slurm.insert({{"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "7"}, {"SLURM_LOCALID", "2"}});
    place = read_worker_place(slurm);
    CHECK(place.rank == 6);
    CHECK(place.world_size == 7);
    CHECK(place.local_rank == 2);
    CHECK(place.local_world_size == 1);

    Environment mpich = master;
    mpich.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
    place = read_worker_place(mpich);
    CHECK(place.rank == 1);
    CHECK(place.world_size == 3);
    CHECK(place.local_rank == 1);
    CHECK(place.local_world_size == 2);

    SECTION("MPICH's ranks are told to be told where they meet") {
        mpich.erase("MASTER_ADDR");
        CHECK(contains(refusal(mpich), "MASTER_ADDR is not set in the environment, and 3 ranks"));
    }
    SECTION("a step of Slurm that has PMI's variables, too, is Slurm's; an mpirun in a batch script is not") {
        const Environment step = {{"SLURM_PROCID", "1"},
                                  {"SLURM_NTASKS", "2"},
                                  {"SLURM_JOB_ID", "70"},
                                  {"SLURM_STEP_ID", "3"},
                                  {"SLURM_STEP_NODELIST", "gpu01"},
                                  {"PMI_RANK", "1"},
                                  {"PMI_SIZE", "2"}};
        CHECK(read_worker_place(step).master_addr == "gpu01");
        mpich.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
        CHECK(read_worker_place(mpich).rank == 1);
        mpich["SLURM_PROCID"] = "1";  // by chance
        mpich["SLURM_NTASKS"] = "3";
        CHECK(read_worker_place(mpich).local_world_size == 2);
        mpich["SLURM_NTASKS"] = "8";
        mpich.erase("PMI_SIZE");
        CHECK(read_worker_place(mpich).world_size == 8);
    }
    SECTION("RANK comes before mpirun, mpirun before srun") {
        Environment all = mpi;
        all.insert(slurm.begin(), slurm.end());
        CHECK(read_worker_place(all).rank == 3);
        all["RANK"] = "0";
        all["WORLD_SIZE"] = "9";
        CHECK(read_worker_place(all).world_size == 9);
    }
    SECTION("an exported WORLD_SIZE alone does not hide mpirun") {
        mpi["WORLD_SIZE"] = "9";
        CHECK(read_worker_place(mpi).world_size == 4);
    }
    SECTION("leftovers of a ddprun job mean nothing under mpirun") {
        mpi["TORCHELASTIC_USE_AGENT_STORE"] = "True";
        mpi["TORCHELASTIC_RESTART_COUNT"] = "4";
        CHECK_FALSE(read_worker_place(mpi).agent_hosts_store);
        CHECK(read_worker_place(mpi).restart_count == 0);
    }
}

TEST_CASE("a missing variable is named") {
    const Environment good = worker_environment({}, example());
    for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK"}) {
        Environment environment = good;
        environment.erase(name);
        CHECK(contains(refusal(environment), std::string(name) + " is not set"));
    }
    CHECK(contains(refusal({{"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE is not set"));
    CHECK(contains(refusal({{"SLURM_PROCID", "0"}}), "SLURM_NTASKS is not set"));
}

TEST_CASE("a wrong value is named with its variable") {
    const Environment good = worker_environment({}, example());
    const std::pair<const char*, const char*> table[] = {
        {"RANK", "x"},          {"RANK", ""},
        {"RANK", "-1"},         {"RANK", "8"},
        {"RANK", "1 "},         {"RANK", "99999999999"},
        {"WORLD_SIZE", "0"},    {"WORLD_SIZE", "1.5"},
        {"LOCAL_RANK", "a"},    {"LOCAL_WORLD_SIZE", "0"},
        {"LOCAL_RANK", "-1"},   {"LOCAL_RANK", "4"},
        {"MASTER_PORT", "0"},   {"MASTER_PORT", "65536"},
        {"MASTER_PORT", ""},    {"MASTER_ADDR", ""},
        {"MASTER_ADDR", "a b"}, {"TORCHELASTIC_RESTART_COUNT", "-2"},
    };
    for (auto [name, value] : table) {
        INFO(name << "='" << value << "'");
        Environment environment = good;
        environment[name] = value;
        const std::string message = refusal(environment);
        CHECK(contains(message, std::string(name) + "='" + value + "'"));
    }
}

TEST_CASE("one rank alone needs no master, but a wrong one is still told") {
    CHECK(read_worker_place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).master_addr.empty());
    CHECK(contains(refusal({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "x"}}), "MASTER_PORT='x'"));
}

TEST_CASE("what a task launcher told the agent is made true of each worker") {
    const Environment told = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"PMIX_RANK", "1"},
                              {"PMIX_NAMESPACE", "prte-7"},
                              {"SLURM_PROCID", "1"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_NTASKS", "2"},
                              {"SLURM_STEP_NUM_TASKS", "2"},
                              {"OMPI_APP_CTX_NUM_PROCS", "2"},
                              {"SLURM_JOB_ID", "7"}};
    const Environment worker = worker_environment(told, example());
    const auto value = [&worker](const char* name) {
        const std::string* found = find_variable(worker, name);
        return found == nullptr ? "not set" : *found;
    };
    for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}) CHECK(value(rank) == "5");
    for (const char* local : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) CHECK(value(local) == "1");
    for (const char* size :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_APP_CTX_NUM_PROCS", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"})
        CHECK(value(size) == "8");
    // Of the step itself it is true; two processes cannot be one of MPI's.
    CHECK(value("SLURM_JOB_ID") == "7");
    CHECK(value("PMIX_NAMESPACE") == "not set");
    CHECK(value("PMI_RANK") == "not set");
    CHECK(value("") == "not set");

    const Environment true_of_it = {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_FD", "12"}};
    CHECK(*find_variable(worker_environment(true_of_it, example()), "PMI_FD") == "12");
}

TEST_CASE("what mpirun tells its task alone goes, and what the user tells MPI's library stays") {
    const Environment told = {
        {"OMPI_COMM_WORLD_RANK", "0"},    {"OMPI_COMM_WORLD_SIZE", "1"},  {"OMPI_MCA_ess", "^singleton"},
        {"OMPI_MCA_ess_base_jobid", "7"}, {"OMPI_MCA_orte_hnp_uri", "x"}, {"OMPI_MCA_pmix", "^isolated"},
        {"PMIX_SERVER_TMPDIR", "/t"},     {"PMIX_NEW_IN_6", "x"},         {"OMPI_FIRST_RANKS", "0"},
        {"OMPI_MCA_btl", "tcp,self"},     {"PMIX_MCA_gds", "hash"},       {"PMIX_RANK", "0"}};
    const Environment worker = worker_environment(told, example());
    for (const char* gone : {"OMPI_MCA_ess", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri",
                             "OMPI_MCA_pmix", "PMIX_SERVER_TMPDIR", "PMIX_NEW_IN_6", "OMPI_FIRST_RANKS"})
        CHECK_FALSE(worker.contains(gone));
    CHECK(worker.at("OMPI_MCA_btl") == "tcp,self");
    CHECK(worker.at("PMIX_MCA_gds") == "hash");
    CHECK(worker.at("PMIX_RANK") == "5");
}

TEST_CASE("Slurm's lists of tasks are the workers', or go where they are not known") {
    const Environment told = {{"SLURM_NTASKS_PER_NODE", "1"},
                              {"SLURM_TASKS_PER_NODE", "1(x2)"},
                              {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                              {"SLURM_GTIDS", "1"}};
    Environment worker = worker_environment(told, example());
    CHECK(worker.at("SLURM_NTASKS_PER_NODE") == "4");
    CHECK(worker.at("SLURM_TASKS_PER_NODE") == "4(x2)");
    CHECK(worker.at("SLURM_STEP_TASKS_PER_NODE") == "4(x2)");
    CHECK(worker.at("SLURM_GTIDS") == "4,5,6,7");
    WorkerIdentity odd = example();
    odd.world_size = 7;
    worker = worker_environment(told, odd);
    CHECK_FALSE(worker.contains("SLURM_TASKS_PER_NODE"));
    CHECK_FALSE(worker.contains("SLURM_STEP_TASKS_PER_NODE"));
    WorkerIdentity alone = example();
    alone.world_size = 4;
    alone.group_world_size = 1;
    CHECK(worker_environment(told, alone).at("SLURM_TASKS_PER_NODE") == "4");
    CHECK_FALSE(worker_environment({}, alone).contains("SLURM_GTIDS"));
}

TEST_CASE("the ways into a place that is another's go, and those of other launchers stay") {
    const std::string jax = "JAX_COORDINATOR_ADDRESS", horovod = "HOROVOD_GLOO_RENDEZVOUS_ADDR",
                      mpi = "PMI_ID";
    struct Row {
        Environment told;
        std::string rank, way, others_way;
    };
    const Row rows[] = {
        {{{"JAX_PROCESS_ID", "1"}, {"JAX_NUM_PROCESSES", "8"}}, "JAX_PROCESS_ID", jax, mpi},
        {{{"JAX_PROCESS_ID", "5"}, {"JAX_NUM_PROCESSES", "4"}},
         "JAX_PROCESS_ID",
         "JAX_LOCAL_DEVICE_IDS",
         mpi},
        {{{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "8"}}, "HOROVOD_RANK", horovod, jax},
        {{{"ALPS_APP_PE", "1"}}, "ALPS_APP_PE", "PMI_CONTROL_PORT", horovod},
        {{{"PALS_RANKID", "1"}}, "PALS_RANKID", "PALS_APINFO", jax},
        {{{"MVP_COMM_WORLD_RANK", "1"}}, "MVP_COMM_WORLD_RANK", mpi, jax},
        {{{"PMIX_RANK", "1"}}, "PMIX_RANK", "PMIX_SERVER_URI41", jax},
        {{{"PMIX_RANK", "1"}}, "PMIX_RANK", "PMIX_SERVER_URI51", jax},
        {{{"JAX_PROCESS_ID", "5"}, {"JAX_NUM_PROCESSES", "8"}}, "JAX_PROCESS_ID", "none", jax},
        {{{"LOCAL_RANK", "7"}}, "RANK", "none", jax},
    };
    for (const Row& row : rows) {
        INFO(row.rank << " and " << row.way);
        Environment told = row.told;
        for (const std::string& way : {row.way, row.others_way}) told[way] = "x";
        told.erase("none");
        const Environment worker = worker_environment(told, example());
        CHECK(worker.at(row.rank) == "5");
        CHECK_FALSE(worker.contains(row.way));
        CHECK(worker.at(row.others_way) == "x");
    }
}

TEST_CASE("others than Hydra call PMI's local numbers otherwise") {
    Environment pmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "7"}};
    CHECK(read_worker_place(pmi).local_rank == 0);
    CHECK_FALSE(read_worker_place(pmi).is_local_size_told);
    pmi["FLUX_TASK_LOCAL_ID"] = "3";
    CHECK(read_worker_place(pmi).local_rank == 3);
    pmi["PALS_LOCAL_RANKID"] = "2";
    CHECK(read_worker_place(pmi).local_rank == 2);
    pmi["PMI_LOCAL_RANK"] = "1";
    pmi["PMI_LOCAL_SIZE"] = "4";
    CHECK(read_worker_place(pmi).local_rank == 1);
    CHECK(read_worker_place(pmi).local_world_size == 4);
    CHECK(read_worker_place(pmi).is_local_size_told);
}

TEST_CASE("mpirun's machine is the address most like one of this machine's") {
    const std::vector<std::string> addresses = {"172.17.0.1", "10.0.2.15", "192.168.1.4"};
    struct Row {
        std::vector<std::string> own;
        std::string address;
        bool is_this;
    };
    const std::vector<Row> rows = {
        {{"127.0.0.1", "172.17.0.1", "10.0.2.15", "192.168.1.4"}, "172.17.0.1", true},
        {{"127.0.0.1", "172.17.0.1", "192.168.1.9"}, "192.168.1.4", false},  // a bridge that both have
        {{"127.0.0.1", "10.0.2.16"}, "10.0.2.15", false},
        {{"::1"}, "172.17.0.1", false},
        {{}, "172.17.0.1", false}};
    for (const Row& row : rows) {
        const MpirunMachine machine = find_mpirun(addresses, row.own);
        CHECK(machine.address == row.address);
        CHECK(machine.is_this == row.is_this);
    }
    for (const char* text : {"", "1.0", "1.0;", "1.0;tcp6://[fd00::2]:5", "1.0;tcp://a b:5", "tcp://:5"})
        CHECK(addresses_of_mpirun(text).empty());
    CHECK(addresses_of_mpirun("1.0;tcp://10.0.0.1") == std::vector<std::string>{"10.0.0.1"});
}

}  // namespace ddprun
