#include "launcher/watch/rank_looks.hpp"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

#include "rendezvous/base/deadline.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

LookScope scope_of(std::initializer_list<pid_t> workers) {
    LookScope scope;
    scope.limit = kHangGuard;
    scope.node.node = 1;
    scope.node.host = "gpu07";
    scope.node.first_rank = 4;
    for (const pid_t pid : workers) {
        WorkerStatus worker;
        worker.local_rank = static_cast<int>(scope.node.workers.size());
        worker.rank = scope.node.first_rank + worker.local_rank;
        worker.pid = pid;
        scope.node.workers.push_back(worker);
    }
    return scope;
}

WaitKind kind_of(const Observation& seen) { return seen.wait ? seen.wait->kind : WaitKind::starting; }

}  // namespace

TEST_CASE("rank looks: all ranks of the node, each with its place in the job") {
    const OtherProcess asleep(std::vector<std::string>{"sleep", "1000"});
    const OtherProcess other(std::vector<std::string>{"sleep", "1000"});
    asleep.await_state('S');
    other.await_state('S');
    const LookScope scope = scope_of({asleep.pid(), other.pid()});
    const auto seen = look_at_ranks(scope, false);
    REQUIRE(seen.size() == 2);
    CHECK((seen[0].rank == 4 && seen[1].rank == 5));
    CHECK((seen[0].node == 1 && seen[0].host == "gpu07" && seen[0].pid == asleep.pid()));
    CHECK((kind_of(seen[0]) == WaitKind::sleep && kind_of(seen[1]) == WaitKind::sleep));
    CHECK(seen[0].source == StackSource::native);
    REQUIRE_FALSE(seen[0].frames.empty());
    CHECK(seen[0].why_unreadable.empty());
}

TEST_CASE("rank looks: one rank alone, and one that has ended") {
    const OtherProcess asleep(std::vector<std::string>{"sleep", "1000"});
    LookScope scope = scope_of({asleep.pid(), ::getpid()});
    scope.node.workers[1].exit_code = 7;
    scope.ranks = {5};
    const auto seen = look_at_ranks(scope, false);
    REQUIRE(seen.size() == 1);
    CHECK((seen[0].rank == 5 && seen[0].exit_code == 7 && !seen[0].wait));
    scope.ranks = {9};
    CHECK(look_at_ranks(scope, false).empty());
}

TEST_CASE("rank looks: the process below a shell does the rank's work") {
    // The sleep is what is looked at; no event is to end it.
    OtherProcess shell(std::vector<std::string>{
        "sh", "-c", R"(python3 -c 'import time; print("ready", flush=True); time.sleep(1000)'; true)"});
    REQUIRE(shell.line() == "ready");
    const LookScope scope = scope_of({shell.pid()});
    const auto until = Deadline::clock::now() + kHangGuard;
    auto seen = look_at_ranks(scope, false);
    // What it prints comes before it sleeps; there is no event for that.
    while (kind_of(seen.at(0)) != WaitKind::sleep && Deadline::clock::now() < until)
        seen = look_at_ranks(scope, false);
    CHECK(seen[0].pid != shell.pid());
    CHECK(seen[0].source == StackSource::python);
    CHECK(kind_of(seen[0]) == WaitKind::sleep);
    ::kill(seen[0].pid, SIGKILL);
}

TEST_CASE("rank looks: a process that has gone, one that is stopped, and a look that is cancelled") {
    pid_t gone = 0;
    {
        const OtherProcess ends(std::vector<std::string>{"sleep", "1000"});
        gone = ends.pid();
    }
    OtherProcess stopped(std::vector<std::string>{"sleep", "1000"});
    stopped.await_state('S');
    ::kill(stopped.pid(), SIGSTOP);
    stopped.await_state('T');
    const LookScope scope = scope_of({gone, stopped.pid()});
    const auto seen = look_at_ranks(scope, false);
    REQUIRE(seen.size() == 2);
    CHECK((seen[0].frames.empty() && !seen[0].why_unreadable.empty()));
    CHECK(kind_of(seen[1]) == WaitKind::stopped);
    const auto cancelled = look_at_ranks(scope, true);
    REQUIRE(cancelled.size() == 2);
    CHECK((!cancelled[1].wait && !cancelled[1].why_unreadable.empty()));
}

}  // namespace ddprun
