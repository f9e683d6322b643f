// Ranks that fork: what their children do is nobody else's business.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "rendezvous/system/own_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rank_processes.hpp"

using namespace ddprun;

namespace {

constexpr std::chrono::seconds kGuard{300};
constexpr int kChildren = 40;

// Where the ranks are, and what moves their data.
struct Placement {
    std::string name;
    int ranks;
    std::string variable;
    std::string value;  // of hosts: `a` for the first half, `b` for the others
};

Environment& apply(const Placement& placement, int rank, Environment& environment) {
    if (placement.variable == "DDPRUN_HOSTID") {
        environment[placement.variable] = 2 * rank < placement.ranks ? "a" : "b";
    } else if (!placement.variable.empty()) {
        environment[placement.variable] = placement.value;
    }
    if (placement.variable == "DDPRUN_BACKEND") {
        environment["DDPRUN_NCCL_LIBRARY"] = DDPRUN_STANDIN_NCCL;
        environment["DDPRUN_CUDA_LIBRARY"] = DDPRUN_STANDIN_NCCL;
        environment["DDPRUN_DEVICE"] = std::to_string(rank);
    }
    return environment;
}

const Placement kShared{"shared memory", 3, "", ""};
const Placement kTcp{"TCP", 3, "DDPRUN_TRANSPORT", "tcp"};
const Placement kHosts{"hosts", 4, "DDPRUN_HOSTID", ""};
const Placement kNccl{"NCCL", 2, "DDPRUN_BACKEND", "nccl"};

// The allocator of the address sanitizer may be locked for ever in a child that was forked while another
// thread allocated.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kChildrenMayAllocate = false;
#else
constexpr bool kChildrenMayAllocate = true;
#endif

void check(const Placement& placement, const std::string& mode, int children = kChildren) {
    INFO(mode << " over " << placement.name);
    if (!kChildrenMayAllocate) {
        WARN("skipped: the address sanitizer's allocator may be locked for ever in children");
        return;
    }
    RankProcesses ranks(placement.ranks, {DDPRUN_FORK_PROGRAM, mode, std::to_string(children)},
                        [&](int rank, Environment& environment) { apply(placement, rank, environment); });
    for (int rank = 0; rank < placement.ranks; ++rank) {
        const RankProcesses::Result result = ranks.finish(rank, kGuard);
        INFO("rank " << rank << " printed: " << result.output);
        REQUIRE(result.output == "ok\n");
        REQUIRE(result.wait_status == 0);
    }
}

// The exit code of what body() returns in a child, made by fork() or without its handlers.
template <class Body>
int in_child(bool with_handlers, Body body) {
    const pid_t child =
        with_handlers ? ::fork()
                      : static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) ::_exit(body());
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

ProcessDescriptor some_descriptor() {
    return ProcessDescriptor([] { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); });
}

}  // namespace

TEST_CASE("every process has another number", "[fork]") {
    const ProcessNumber own = this_process();
    REQUIRE(own != 0);
    for (const bool with_handlers : {true, false}) {
        const int code = in_child(with_handlers, [&] {
            const ProcessNumber childs = this_process();
            if (childs == own || childs != this_process()) return 1;
            const pid_t grandchild = ::fork();
            if (grandchild == 0) ::_exit(this_process() == own || this_process() == childs ? 1 : 0);
            int status = -1;
            ::waitpid(grandchild, &status, 0);
            return status == 0 ? 0 : 2;
        });
        REQUIRE(code == 0);
        REQUIRE(this_process() == own);
    }
}

TEST_CASE("a descriptor of the process is none of its children's", "[fork]") {
    auto kept = some_descriptor();
    auto closed = some_descriptor();
    const int number = closed.get();
    auto moved = std::move(closed);
    moved = some_descriptor();
    const int code = in_child(true, [&] {
        if (is_open(kept.get()) || is_open(moved.get())) return 1;
        const auto own = some_descriptor();
        return is_open(own.get()) ? 0 : 2;
    });
    REQUIRE(code == 0);
    REQUIRE(is_open(kept.get()));
    REQUIRE(is_open(moved.get()));
    REQUIRE_FALSE(number == moved.get());
    REQUIRE_FALSE(is_open(number));
}

TEST_CASE("a child that ends its copy closes nobody's descriptor of the same number", "[fork]") {
    for (const bool with_handlers : {true, false}) {
        std::optional<ProcessDescriptor> descriptor(some_descriptor());
        const int code = in_child(with_handlers, [&] {
            const int number = descriptor->get();
            const int other = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
            if (other != number && ::dup2(other, number) != number) return 1;
            descriptor.reset();
            return is_open(number) ? 0 : 2;
        });
        REQUIRE(code == 0);
    }
}

TEST_CASE("no descriptor is made where there is none", "[fork]") {
    const ProcessDescriptor none([] { return ::open("/nonexistent/file", O_RDONLY | O_CLOEXEC); });
    REQUIRE(errno == ENOENT);
    REQUIRE_FALSE(none);
}

TEST_CASE("children that destroy their copies of everything change nothing", "[fork]") {
    for (const Placement& placement : {kShared, kTcp, kHosts}) check(placement, "destroy");
}

TEST_CASE("children that exit with a communicator in static storage change nothing", "[fork]") {
    for (const Placement& placement : {kShared, kTcp, kHosts}) check(placement, "exit");
}

TEST_CASE("children that call anything are refused", "[fork]") {
    for (const Placement& placement : {kShared, kTcp, kHosts, kNccl}) check(placement, "use", 3);
}

TEST_CASE("children of ranks with NCCL change nothing", "[fork]") {
    for (const char* mode : {"destroy", "exit"}) check(kNccl, mode, 10);
}

TEST_CASE("children make communicators of their own", "[fork]") {
#ifdef __SANITIZE_THREAD__
    WARN("skipped: the thread sanitizer starts no threads in a child of a process that had some");
#else
    check(kShared, "make", 5);
#endif
}

TEST_CASE("children have no socket of the library, whenever they are forked", "[fork]") {
    for (const Placement& placement : {kShared, kTcp}) check(placement, "look");
}

TEST_CASE("programs are started as ever", "[fork]") { check(kTcp, "spawn", 5); }
