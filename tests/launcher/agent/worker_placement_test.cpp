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
                           {"DDPRUN_LIFE", "outer"}};
    options.workers = {{{"train", "--rank=0"}, {{"CUDA_VISIBLE_DEVICES", "4"}}},
                       {{"train", "--rank=1"}, {{"CUDA_VISIBLE_DEVICES", "5"}, {"OMP_NUM_THREADS", "8"}}}};
    return options;
}

RoundReady second_round() {
    RoundReady round{.round = 1, .job_id = "job7-abc", .group_rank = 1, .group_world_size = 2};
    round.base_rank = 3;
    round.world_size = 5;
    round.role_base_rank = 1;
    round.role_world_size = 3;
    round.restart_count = 1;
    round.max_restarts = 4;
    round.restart_reason = "rank 0: exit code 1";
    return round;
}

WorkerSpec place(const LaunchOptions& options, int local_rank, const WorkerStation& station = {},
                 const LauncherStreams& launcher = {}) {
    return place_worker(options, second_round(), local_rank, station, launcher);
}

}  // namespace

TEST_CASE("a worker's environment is exactly this table") {
    const WorkerSpec spec = place(options_of_node(), 1, {.host = "gpu1", .life = "7:3", .error_file = "/e"});
    const Environment expected = {
        {"CUDA_VISIBLE_DEVICES", "5"},
        {"DDPRUN_LIFE", "7:3"},
        {"DDPRUN_RESTART_REASON", "rank 0: exit code 1"},
        {"DDPRUN_ROUND", "1"},
        {"DDPRUN_RUN_ID", "job7-abc"},
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
    CHECK_FALSE(environment.contains("DDPRUN_LIFE"));
    const LaunchOptions options = options_of_node();
    const WorkerSpec first_round = place_worker(options, RoundReady{}, 0, {}, {});
    CHECK_FALSE(first_round.environment.contains("DDPRUN_RESTART_REASON"));
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
    const auto program = [](const std::string& value, std::vector<std::string> argv) {
        return RankProgram{std::get<RankCommand>(parse_rank_command("--program", value, "")),
                           {.argv = std::move(argv), .entry_name = {}}};
    };
    options.programs = {program("4:x", {"server", "${local_rank}"}), program("local=1:x", {"other"}),
                        program("0-2:x", {"far"})};
    options.wraps = {std::get<Wrap>(parse_wrap("*:nice"))};
    CHECK(place(options, 0).argv == std::vector<std::string>{"nice", "train", "--rank=0"});
    CHECK(place(options, 1).argv == std::vector<std::string>{"nice", "server", "1"});
    options.programs.erase(options.programs.begin());
    CHECK(place(options, 1).argv == std::vector<std::string>{"nice", "other"});
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

}  // namespace ddprun
