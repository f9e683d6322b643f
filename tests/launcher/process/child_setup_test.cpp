#include "launcher/process/child_exec.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "launcher/process/descriptors.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Above everything this program has open.
constexpr int kHighDescriptor = 300;

bool is_close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

}  // namespace

TEST_CASE("descriptors from a number on become close-on-exec, those below stay") {
    const bool listing = GENERATE(false, true);
    std::vector<int> fds;
    // More than one buffer of directory records.
    for (int i = 0; i < 500; ++i) fds.push_back(::fcntl(STDERR_FILENO, F_DUPFD, kHighDescriptor));
    REQUIRE(fds.back() >= kHighDescriptor);
    const int below = fds[0];
    const int first = fds[1];
    CHECK((listing ? close_on_exec_by_listing(first) : close_on_exec_from(first)) == 0);
    CHECK_FALSE(is_close_on_exec(below));
    int missed = 0;
    for (std::size_t i = 1; i < fds.size(); ++i) missed += is_close_on_exec(fds[i]) ? 0 : 1;
    CHECK(missed == 0);
    for (int fd : fds) ::close(fd);
}

TEST_CASE("a child whose parent died before the death signal was set runs nothing") {
    int report[2];
    REQUIRE(::pipe2(report, O_CLOEXEC) == 0);
    const char* candidates[] = {"/bin/true", nullptr};
    char name[] = "true";
    char* argv[] = {name, nullptr};
    char* environment[] = {nullptr};
    const WorkerSpec spec;
    ChildPlan plan{.spec = spec};
    plan.candidates = candidates;
    plan.argv = argv;
    plan.environment = environment;
    plan.report_fd = report[1];
    plan.parent = ::getpid() + 1;  // as after the real parent's death: somebody else
    const pid_t pid = ::fork();
    if (pid == 0) become_program(plan);
    REQUIRE(pid > 0);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != 0);
    ::close(report[0]);
    ::close(report[1]);
}

}  // namespace ddprun
