// Where a worker runs from its first instruction on: its CPUs and whose memory it gets.
#include <fmt/core.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "launcher/plan/cpu_list.hpp"
#include "launcher/plan/topology.hpp"
#include "launcher/process/session_launcher.hpp"
#include "rendezvous/system/resource_limits.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr const char* kStatus = "grep -h -e Cpus_allowed_list -e Name: /proc/self/status";

WorkerSpec shell(const std::string& script) {
    WorkerSpec spec = stub_spec({});
    spec.argv = {"sh", "-c", script};
    return spec;
}

bool is_own_memory_known() { return ::access("/proc/self/numa_maps", R_OK) == 0; }

// As containers do it.
void forbid_memory_policies() {
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{std::size(rules), rules};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(10);
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) ::_exit(11);
}

}  // namespace

TEST_CASE("a worker runs on the CPUs that it is given, and the launcher on its own") {
    const CpuList before = affinity_cpus();
    WorkerSpec spec = shell(kStatus);
    spec.cpus = {before.back()};
    StubRun run(spec);
    CHECK(run.out().rest().back() == "Cpus_allowed_list:\t" + std::to_string(before.back()));
    run.wait();
    CHECK(affinity_cpus() == before);
    StubRun unbound(shell(kStatus));
    CHECK(unbound.out().rest().back() == "Cpus_allowed_list:\t" + cpu_list_text(before));
    unbound.wait();
}

TEST_CASE("CPUs that the machine does not have are named, and nothing starts") {
    boost::asio::io_context context;
    WorkerSpec spec = shell("echo started");
    spec.cpus = {kMaxCpus - 2, kMaxCpus - 1};
    const auto result = SessionLauncher{}(context.get_executor(), spec);
    REQUIRE(std::holds_alternative<StartFailure>(result));
    const auto& failure = std::get<StartFailure>(result);
    CHECK(
        failure.text ==
        fmt::format(
            "cannot start 'sh': sched_setaffinity (--bind, --numa-binding): Invalid argument (none of the CPUs "
            "{} to {} is among those that this process may use)",
            kMaxCpus - 2, kMaxCpus - 1));
    CHECK(failure.exit_code == kExitSystem);
    CHECK(has_no_children());
}

TEST_CASE("a worker's memory is that of its NUMA node, as long as there is some") {
    if (!is_own_memory_known() || !memory_policy_refusal().empty()) {
        WARN("skipped: this system has no /proc/PID/numa_maps, or forbids set_mempolicy");
        return;
    }
    WorkerSpec spec = shell("cat /proc/self/numa_maps");
    spec.memory_node = 0;
    StubRun run(spec);
    const auto lines = run.out().rest();
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.back().find(" prefer:0 ") != std::string::npos);
    run.wait();
}

TEST_CASE("a policy that the kernel refuses keeps no program from starting") {
    WorkerSpec spec = shell("echo started");
    spec.memory_node = 1023;
    StubRun run(spec);
    CHECK(run.out().rest() == std::vector<std::string>{"started"});
    CHECK(to_string(run.wait()) == "exit code 0");
}

TEST_CASE("a system that forbids memory policies is known before anything starts") {
    const pid_t pid = ::fork();
    if (pid == 0) {
        forbid_memory_policies();
        ::_exit(memory_policy_refusal() == "Operation not permitted" ? 0 : 1);
    }
    REQUIRE(pid > 0);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace ddprun
