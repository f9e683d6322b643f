#include "launcher/report/failure_cause.hpp"

#include <csignal>

#include "rendezvous/text/number_text.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

OomCounters counters(std::optional<std::int64_t> worker, std::optional<std::int64_t> job,
                     std::optional<std::int64_t> machine) {
    OomCounters result;
    result.worker_kills = worker;
    result.job_kills = job;
    result.machine_kills = machine;
    return result;
}

const std::string kEvents = "low 0\nhigh 0\nmax 4\noom 1\noom_kill 3\noom_group_kill 0\n";

}  // namespace

TEST_CASE("who killed: what the counters tell, and no more") {
    struct Row {
        OomCounters before, after;
        std::string text;
    };
    const auto none = std::nullopt;
    const std::string other = "not the kernel's OOM killer: somebody else sent SIGKILL; ";
    const std::string perhaps = "perhaps the kernel's OOM killer: since the worker started it killed ";
    const std::string untold =
        "whether the kernel's OOM killer sent SIGKILL could not be told: its counters cannot be read here";
    const Row rows[] = {
        {counters(0, 5, 9), counters(1, 6, 10),
         "the kernel's OOM killer: it killed one process of this worker's own cgroup"},
        {counters(2, none, none), counters(4, none, none),
         "the kernel's OOM killer: it killed 2 processes of this worker's own cgroup"},
        {counters(0, 5, 9), counters(0, 6, 10), other + "its cgroup counts no OOM kill"},
        {counters(none, 5, 9), counters(none, 5, 10),
         other + "the job's cgroup counts no OOM kill since the worker started"},
        {counters(none, 5, 9), counters(none, 6, 10),
         perhaps + "one process in the job's cgroup, which one could not be told"},
        {counters(none, none, 9), counters(none, none, 9),
         other + "the kernel counts no OOM kill on this node since the worker started"},
        {counters(none, none, 9), counters(none, none, 12),
         perhaps + "3 processes on this node, which one could not be told"},
        {counters(none, none, none), counters(none, none, none), untold},
        {counters(none, none, 9), counters(none, none, none), untold},
        {counters(none, none, none), counters(none, none, 9), untold},
        {counters(none, none, 9), counters(none, none, 8), untold},
        {counters(3, none, 9), counters(2, none, 9),
         other + "the kernel counts no OOM kill on this node since the worker started"},
    };
    for (const Row& row : rows) CHECK(explain_kill(row.before, row.after) == row.text);
}

TEST_CASE("who killed: the memory of the worker's own cgroup") {
    OomCounters after = counters(1, 1, 1);
    after.worker_limit = std::int64_t{64} << 30;
    after.worker_peak = std::int64_t{61} << 30;
    CHECK_THAT(explain_kill(counters(0, 0, 0), after),
               Catch::EndsWith(" own cgroup (limit 64.0 GiB, peak 61.0 GiB)"));
    after.worker_limit.reset();
    CHECK_THAT(explain_kill(counters(1, 0, 0), after), Catch::EndsWith("no OOM kill (peak 61.0 GiB)"));
}

TEST_CASE("who killed: counters are read where they are") {
    TemporaryFolder folder;
    for (const char* name : {"worker", "job"}) fs::create_directories(folder.path() / name);
    folder.file("worker/memory.events", kEvents);
    folder.file("worker/memory.max", "1048576\n");
    folder.file("worker/memory.peak", "1048000\n");
    folder.file("job/memory.events", "oom_kill 7\n");
    const fs::path vmstat = folder.file("vmstat", "nr_free_pages 5\noom_kill 11\ndrop_pagecache 0\n");

    OomCounters expected = counters(3, 7, 11);
    expected.worker_limit = 1048576;
    expected.worker_peak = 1048000;
    CHECK(read_oom_counters({folder.path() / "worker", folder.path() / "job", vmstat}) == expected);
    CHECK(read_oom_counters({"", "", vmstat}) == counters(std::nullopt, std::nullopt, 11));
    CHECK(read_oom_counters({folder.path() / "no", "", folder.path() / "no"}) == OomCounters{});
    folder.file("worker/memory.max", "max\n");
    CHECK_FALSE(read_oom_counters({folder.path() / "worker", "", vmstat}).worker_limit);
}

TEST_CASE("who killed: the machine's own counter can be read, or that is said") {
    const OomCounters now = read_oom_counters({});
    if (!now.machine_kills) {
        WARN("skipped: this kernel shows no oom_kill in /proc/vmstat");
        return;
    }
    CHECK(*now.machine_kills >= 0);
    CHECK_FALSE(now.worker_kills);
}

TEST_CASE("counters of files with a name and a value on each line") {
    CHECK(parse_counter(kEvents, "oom_kill") == 3);
    CHECK(parse_counter(kEvents, "oom") == 1);
    CHECK_FALSE(parse_counter(kEvents, "oom_"));
    CHECK_FALSE(parse_counter("oom_kill\noom_kill x\n", "oom_kill"));
    CHECK_FALSE(parse_counter("oom_kill 99999999999999999999\n", "oom_kill"));
    CHECK_FALSE(parse_counter("", "oom_kill"));
}

TEST_CASE("sizes of memory") {
    CHECK(size_text(0) == "0 bytes");
    CHECK(size_text(1023) == "1023 bytes");
    CHECK(size_text(1536) == "1.5 KiB");
    CHECK(size_text(std::uint64_t{64} << 20) == "64.0 MiB");
    CHECK(size_text(std::uint64_t{3} << 40) == "3.0 TiB");
    CHECK(size_text(std::uint64_t{3000} << 40) == "3000.0 TiB");
}

namespace {

std::string hint_for(const std::string& line, int signal = 0, const std::string& interpreter = "") {
    Failure failure;
    failure.signal = signal;
    failure.last_lines = {"one line before", line, "one line behind"};
    return failure_hint(failure, {interpreter, true, Room{1 << 30, 1 << 30}});
}

HintFacts with_room(Room room) { return {.interpreter = {}, .shared_memory = room}; }

}  // namespace

TEST_CASE("hints: texts that many users have met") {
    struct Row {
        std::string line, part;
    };
    const Row rows[] = {
        {"Bus error (core dumped)", "docker run --shm-size=8g"},
        {"RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that "
         "dataloader's "
         "workers are out of shared memory.",
         "--shm-size"},
        {"OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'", "under Slurm more --mem"},
        {"NCCL WARN Error while creating shared memory segment /dev/shm/nccl-5LzR9m (size 9637888)",
         "--shm-size"},
        {"ncclSystemError: unhandled system error, in shmutils.cc", "--shm-size"},
        {"NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", "memlock=-1"},
        {"NCCL WARN Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
        {"RuntimeError: CUDA error: invalid device ordinal", "$DDPRUN_DEVICE"},
        {"OSError: [Errno 24] Too many open files", "ulimit -n"},
        {"ncclUnhandledCudaError: Call to CUDA function failed. unhandled cuda error", "NCCL_DEBUG=WARN"},
        {"torch.distributed.DistBackendError: NCCL error, unhandled system error", "NCCL_DEBUG=WARN"},
    };
    for (const Row& row : rows) {
        INFO(row.line);
        CHECK_THAT(hint_for(row.line), Catch::Contains(row.part));
        CHECK(hint_for(row.line).find('\n') == std::string::npos);
    }
}

TEST_CASE("hints: SIGBUS, and nothing where nothing is known") {
    CHECK_THAT(hint_for("", SIGBUS), Catch::Contains("--shm-size"));
    CHECK_THAT(hint_for("", SIGBUS), Catch::StartsWith("perhaps "));
    CHECK(hint_for("", SIGSEGV).empty());
    CHECK(hint_for("No space left on device: '/scratch'").empty());
    CHECK(hint_for("ValueError: boom").empty());
    CHECK_THAT(hint_for("no socket interface found", SIGBUS), Catch::Contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("hints: none where the same words are about something else") {
    for (const char* line : {"psycopg2.errors.OutOfMemory: out of shared memory",
                             "I2C: Bus error on address 0x4c", "OSError: [Errno 12] Cannot allocate memory"})
        CHECK(hint_for(line).empty());
    Failure failure;
    failure.last_lines = {"reading /dev/shm/cache.bin",
                          "OSError: [Errno 28] No space left on device: '/scratch/x'"};
    CHECK(failure_hint(failure, {}).empty());
    failure.last_lines = {"ibv_devinfo: 2 devices", "OSError: [Errno 12] Cannot allocate memory"};
    CHECK(failure_hint(failure, {}).empty());
    failure.last_lines = {"Call to ibv_reg_mr failed with error Cannot allocate memory"};
    CHECK_FALSE(failure_hint(failure, {}).empty());
    CHECK(failure_hint(failure, {.locks_memory_to_a_limit = false}).empty());
    failure.last_lines = {"DistBackendError: NCCL error, unhandled system error"};
    CHECK(failure_hint(failure, {.nccl_is_quiet = false}).empty());
    failure.last_lines = {"OSError: [Errno 23] Too many open files in system"};
    CHECK_THAT(failure_hint(failure, {}), Catch::Contains("fs.file-max") && !Catch::Contains("ulimit"));
    failure.last_lines = {"RuntimeError: CUDA error: invalid device ordinal"};
    CHECK_THAT(failure_hint(failure, {.is_beyond_gpus = true}), Catch::Contains("fewer GPUs than workers"));
}

TEST_CASE("hints: the error file's texts count too, and only a worker's failure has one") {
    Failure failure;
    failure.error_message = "OSError: [Errno 24] Too many open files";
    CHECK_FALSE(failure_hint(failure, {}).empty());
    failure.kind = Failure::Kind::node_lost;
    CHECK(failure_hint(failure, {}).empty());
    Failure traced;
    traced.traceback = "OSError: [Errno 24] Too many open files";
    CHECK_FALSE(failure_hint(traced, {}).empty());
}

TEST_CASE("hints: --gpu-bind all helps against a wrong device only where a worker sees one of several") {
    Failure failure;
    for (std::string* words : {&failure.error_message, &failure.traceback}) {
        *words = "RuntimeError: CUDA error: invalid device ordinal";
        CHECK_THAT(failure_hint(failure, {.sees_one_gpu = true}), Catch::Contains("run with --gpu-bind all"));
        CHECK(failure_hint(failure, {.sees_one_gpu = false}).empty());
        words->clear();
    }
}

TEST_CASE("hints: a missing module names the interpreter, if there is one") {
    const std::string line = "ModuleNotFoundError: No module named 'torch'";
    CHECK(hint_for(line, 0, "/usr/bin/python3") == "the interpreter is /usr/bin/python3");
    CHECK(hint_for(line).empty());
    CHECK(hint_for("ImportError: cannot import name 'x'", 0, "/usr/bin/python3").empty());
    Failure recorded;
    recorded.error_message = line;
    CHECK_FALSE(failure_hint(recorded, {.interpreter = "/usr/bin/python3", .shared_memory = {}}).empty());
}

TEST_CASE("hints: a missing extension's own advice is passed on") {
    const std::string advice =
        "there is no extension for torch 2.9.0 and Python 3.13 in this package, and no C++ compiler";
    CHECK(hint_for("RuntimeError: ddprun: " + advice, 0, "/usr/bin/python3") == advice);
    Failure recorded;
    recorded.error_message = "RuntimeError: ddprun: " + advice;
    CHECK(failure_hint(recorded, {}) == advice);
    Failure printed;
    printed.last_lines = {
        R"(    raise RuntimeError(f"ddprun: there is no extension for torch {torch.__version__} and ")",
        "RuntimeError: ddprun: " + advice};
    CHECK(failure_hint(printed, {}) == advice);
    CHECK(hint_for("pip: " + advice).empty());
}

TEST_CASE("hints: of a bus error only what /dev/shm shows is said as a fact") {
    Failure failure;
    failure.signal = SIGBUS;
    const std::string full = "shared memory has run out, see 'df -h /dev/shm'";
    CHECK_THAT(failure_hint(failure, with_room(Room{64 << 20, 0})),
               Catch::StartsWith("0 bytes of 64.0 MiB of /dev/shm are free now: " + full));
    CHECK_THAT(failure_hint(failure, with_room(Room{64 << 20, 2 << 20})), Catch::Contains(full));
    CHECK_THAT(
        failure_hint(failure, with_room(Room{64 << 20, (2 << 20) + 1})),
        Catch::StartsWith("perhaps a file that was mapped became shorter, or shared memory ran out (2.0 "
                          "MiB of 64.0 MiB of /dev/shm are free now); "));
    CHECK_THAT(
        failure_hint(failure, {}),
        Catch::StartsWith("perhaps a file that was mapped became shorter, or shared memory ran out; "));
    failure.signal = 0;
    failure.last_lines = {"Bus error (core dumped)"};
    CHECK_THAT(failure_hint(failure, with_room(Room{64 << 20, 64 << 20})), Catch::StartsWith("perhaps "));
    CHECK_THAT(failure_hint(failure, with_room(Room{64 << 20, 0})), Catch::Contains(full));
    // Where the program says so itself, it is so.
    failure.last_lines = {"OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'"};
    CHECK_THAT(failure_hint(failure, with_room(Room{64 << 20, 64 << 20})), Catch::StartsWith(full));
}

}  // namespace ddprun
