#include "launcher/report/failure_cause.hpp"

#include <csignal>

#include "tests/support/catch.hpp"

namespace ddprun {
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
