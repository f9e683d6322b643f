#include "launcher/agent/worker_placement.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Node 1 of 2, with two workers.
LaunchOptions options_of_node() {
    LaunchOptions options;
    options.nnodes = 2;
    options.node_rank = 1;
    options.master = {"node-a", 29500};
    options.run_id = "job7";
    options.role = "trainer";
    options.environment = {{"HOME", "/home/me"},
                           {"OMP_NUM_THREADS", "1"},
                           {"RANK", "99"},  // an outer job's, like the next three
                           {"TORCHELASTIC_ERROR_FILE", "/outer"},
                           {"DDPRUN_RESTART_REASON", "outer"},
                           {"DDPRUN_MESH_KEY", "outer"},
                           {"DDPRUN_NODE_ADDR", "outer"},
                           {"DDPRUN_LIFE", "outer"}};
    options.workers = {{{"train", "--rank=0"}, {{"CUDA_VISIBLE_DEVICES", "4"}}},
                       {{"train", "--rank=1"}, {{"CUDA_VISIBLE_DEVICES", "5"}, {"OMP_NUM_THREADS", "8"}}}};
    return options;
}

RoundReady second_round() {
    RoundReady round{.round = 1, .job_id = "job7-abc", .group_rank = 1, .group_world_size = 2};
    round.start_unix_s = 1'795'235'522;
    round.base_rank = 3;
    round.world_size = 5;
    round.role_base_rank = 1;
    round.role_world_size = 3;
    round.restart_count = 1;
    round.max_restarts = 4;
    round.restart_reason = "rank 0: exit code 1";
    return round;
}

WorkerSpec place(const LaunchOptions& options, int local_rank, WorkerStation station = {},
                 const LauncherStreams& launcher = {}) {
    station.added.launcher = launcher;
    return place_worker(options, second_round(), local_rank, station);
}

}  // namespace

TEST_CASE("a worker's environment is exactly this table") {
    const WorkerSpec spec = place(options_of_node(), 1, {.host = "gpu1", .life = "7:3", .error_file = "/e"});
    const Environment expected = {
        {"CUDA_VISIBLE_DEVICES", "5"},
        {"DDPRUN_LIFE", "7:3"},
        {"DDPRUN_MASTER_ADDR", "node-a"},
        {"DDPRUN_RESTART_REASON", "rank 0: exit code 1"},
        {"DDPRUN_ROUND", "1"},
        {"DDPRUN_RUN_ID", "job7-abc"},
        {"DDPRUN_START_TIME", "1795235522"},
        {"GROUP_RANK", "1"},
        {"GROUP_WORLD_SIZE", "2"},
        {"HOME", "/home/me"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "node-a"},
        {"MASTER_PORT", "29500"},
        {"OMP_NUM_THREADS", "8"},
        {"RANK", "4"},
        {"ROLE_NAME", "trainer"},
        {"ROLE_RANK", "2"},
        {"ROLE_WORLD_SIZE", "3"},
        {"TORCHELASTIC_ERROR_FILE", "/e"},
        {"TORCHELASTIC_MAX_RESTARTS", "4"},
        {"TORCHELASTIC_RESTART_COUNT", "1"},
        {"TORCHELASTIC_RUN_ID", "job7"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
        {"WORLD_SIZE", "5"},
    };
    CHECK(spec.environment == expected);
    CHECK(spec.rank == 4);
    CHECK(spec.local_rank == 1);
}

TEST_CASE("nothing of an outer job is left, whatever this one does not say") {
    const Environment environment = place(options_of_node(), 0).environment;
    CHECK(environment.at("RANK") == "3");
    CHECK(environment.at("TORCHELASTIC_ERROR_FILE").empty());
    CHECK(environment.at("OMP_NUM_THREADS") == "1");
    for (const char* name : {"DDPRUN_LIFE", "DDPRUN_MESH_KEY", "DDPRUN_NODE_ADDR"})
        CHECK_FALSE(environment.contains(name));
    const LaunchOptions options = options_of_node();
    const WorkerSpec first_round = place_worker(options, RoundReady{}, 0, {});
    CHECK_FALSE(first_round.environment.contains("DDPRUN_RESTART_REASON"));
}

TEST_CASE(
    "what a worker is told of its node: the store where it finds it, the host of that, itself, the key of "
    "its mesh") {
    const SecretKey key = SecretKey::fresh();
    const Environment environment =
        place(options_of_node(), 0, {.store = {"127.0.0.1", 4000}, .address = "10.0.0.2", .mesh_key = key})
            .environment;
    CHECK(environment.at("MASTER_ADDR") == "127.0.0.1");
    CHECK(environment.at("MASTER_PORT") == "4000");
    CHECK(environment.at("DDPRUN_MASTER_ADDR") == "node-a");
    CHECK(environment.at("DDPRUN_NODE_ADDR") == "10.0.0.2");
    CHECK(environment.at("DDPRUN_MESH_KEY") == hex_of(key));
}

TEST_CASE("variables of some ranks are over those of all, and never over the worker's place") {
    LaunchOptions options = options_of_node();
    options.rank_variables = {{std::get<RankSet>(parse_rank_set("4")), false, "HOME", "/elsewhere"},
                              {std::get<RankSet>(parse_rank_set("0")), true, "CUDA_VISIBLE_DEVICES", "7"},
                              {RankSet::all(), false, "RANK", "77"}};
    CHECK(place(options, 0).environment.at("HOME") == "/home/me");
    CHECK(place(options, 0).environment.at("CUDA_VISIBLE_DEVICES") == "7");
    CHECK(place(options, 1).environment.at("HOME") == "/elsewhere");
    CHECK(place(options, 1).environment.at("CUDA_VISIBLE_DEVICES") == "5");
    CHECK(place(options, 1).environment.at("RANK") == "4");
}

TEST_CASE(
    "caches are where the node has them, unless the user has said so; timers where the watchdog reads") {
    LaunchOptions options = options_of_node();
    options.environment["TRITON_CACHE_DIR"] = "/mine";
    options.environment["TORCHELASTIC_TIMER_FILE"] = "/outer";
    const Environment caches{{"TRITON_CACHE_DIR", "/node/triton"}, {"CUDA_CACHE_PATH", "/node/cuda"}};
    const Environment own =
        place(options, 0, {.added = {.unless_set = caches, .over = {{"TORCHELASTIC_TIMER_FILE", "/timers"}}}})
            .environment;
    CHECK(own.at("TRITON_CACHE_DIR") == "/mine");
    CHECK(own.at("CUDA_CACHE_PATH") == "/node/cuda");
    CHECK(own.at("TORCHELASTIC_TIMER_FILE") == "/timers");
    CHECK(place(options, 0).environment.at("TORCHELASTIC_TIMER_FILE") == "/outer");
}

TEST_CASE("the mesh has a key of the job's, on all nodes the same; a single node has one without") {
    LaunchOptions options = options_of_node();
    RoundReady round = second_round();
    CHECK_FALSE(mesh_key_of(options, round).has_value());
    options.key = SecretKey::fresh();
    const auto key = mesh_key_of(options, round);
    REQUIRE(key.has_value());
    CHECK(mesh_key_of(options, round) == key);
    round.group_rank = 0;
    CHECK(mesh_key_of(options, round) == key);
    round.round = 2;
    CHECK_FALSE(mesh_key_of(options, round) == key);
    options.key.reset();
    round.group_world_size = 1;
    const auto random = mesh_key_of(options, round);
    REQUIRE(random.has_value());
    CHECK_FALSE(mesh_key_of(options, round) == random);
}

TEST_CASE("a worker's command, with the wraps that name it in front") {
    LaunchOptions options = options_of_node();
    options.wraps = {std::get<Wrap>(parse_wrap("4:gdb -x %r.%l@%h"))};
    CHECK(place(options, 0, {.host = "gpu1"}).argv == options.workers[0].argv);
    CHECK(place(options, 1, {.host = "gpu1"}).argv ==
          std::vector<std::string>{"gdb", "-x", "4.1@gpu1", "train", "--rank=1"});
    options.hangup_ignored = true;
    CHECK(place(options, 0).ignore_hangup);
}

TEST_CASE("ranks that --program names run that, the first that names one counts") {
    LaunchOptions options = options_of_node();
    const auto program = [](const std::string& value, const std::string& name) {
        RankPlan plan{std::get<RankCommand>(parse_rank_command("--program", value, "")), {}};
        for (const char* local_rank : {"0", "1"})
            plan.workers.push_back(
                {.argv = {name, local_rank}, .additions = {{"DEVICE_OF", name}}, .cpus = {}});
        return plan;
    };
    options.programs = {program("4:x", "server"), program("local=1:x", "other"), program("0-2:x", "far")};
    options.wraps = {std::get<Wrap>(parse_wrap("*:nice"))};
    CHECK(place(options, 0).argv == std::vector<std::string>{"nice", "train", "--rank=0"});
    CHECK(place(options, 1).argv == std::vector<std::string>{"nice", "server", "1"});
    CHECK(place(options, 1).environment.at("DEVICE_OF") == "server");
    CHECK_FALSE(place(options, 0).environment.contains("DEVICE_OF"));
    options.programs.erase(options.programs.begin());
    CHECK(place(options, 1).argv == std::vector<std::string>{"nice", "other", "1"});
}

TEST_CASE("a worker has the CPUs and the memory of its plan") {
    LaunchOptions options = options_of_node();
    options.workers[1].cpus = {4, 5};
    options.workers[1].memory_node = 1;
    CHECK(place(options, 0).cpus.empty());
    CHECK(place(options, 0).memory_node == -1);
    CHECK(place(options, 1).cpus == std::vector<int>{4, 5});
    CHECK(place(options, 1).memory_node == 1);
}

TEST_CASE("where a worker's streams lead") {
    const StreamTarget null = Stdio::null, own = Stdio::inherit;
    const StreamTarget out = GivenDescriptor{11}, err = GivenDescriptor{12}, tty = GivenDescriptor{20};
    struct Case {
        std::optional<int> tty_rank;
        LauncherStreams launcher;
        std::optional<int> tty_here;
        StreamTarget input, output, error;
        bool takes_terminal;
    };
    const std::vector<Case> cases = {
        {{}, {}, {}, null, out, err, false},
        {2, {}, {}, null, out, err, false},  // on node 0
        {5, {}, {}, null, out, err, false},
        {3, {}, 0, null, out, err, false},  // the other worker's
        {4, {}, 1, own, own, own, false},
        {4, {GivenDescriptor{20}, false, false}, 1, tty, own, own, true},
        {4, {GivenDescriptor{20}, true, false}, 1, tty, tty, own, true},
        {4, {GivenDescriptor{20}, true, true}, 1, tty, tty, tty, true},
    };
    for (const Case& one : cases) {
        LaunchOptions options = options_of_node();
        options.tty_rank = one.tty_rank;
        CHECK(local_rank_of_tty(options, second_round()) == one.tty_here);
        const WorkerSpec spec =
            place(options, 1, {.standard_output = out, .standard_error = err}, one.launcher);
        CHECK((spec.standard_input == one.input));
        CHECK((spec.standard_output == one.output));
        CHECK((spec.standard_error == one.error));
        CHECK(spec.takes_terminal == one.takes_terminal);
    }
}

TEST_CASE("the launcher's standard input goes to whom it was given, by global rank") {
    LaunchOptions options = options_of_node();
    const auto reads = [&options](int local_rank) {
        return place(options, local_rank).standard_input == StreamTarget(Stdio::inherit);
    };
    CHECK_FALSE((reads(0) || reads(1)));
    options.standard_input = {.rank = 0};  // of another node
    CHECK_FALSE((reads(0) || reads(1)));
    options.standard_input = {.rank = 4};
    CHECK((!reads(0) && reads(1)));
    options.standard_input = {.all = true};
    CHECK((reads(0) && reads(1)));
}

TEST_CASE("with a virtual local rank it is 0, whatever the worker's place is") {
    LaunchOptions options = options_of_node();
    options.virtual_local_rank = true;
    const WorkerSpec spec = place(options, 1);
    CHECK(spec.environment.at("LOCAL_RANK") == "0");
    CHECK(spec.environment.at("RANK") == "4");
    CHECK(spec.local_rank == 1);
}

}  // namespace ddprun
