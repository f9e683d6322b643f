// What is left when the guardian, its keeper or the agent is killed: nothing.
#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "launcher/guardian/guardian.hpp"
#include "launcher/process/sweeper.hpp"
#include "tests/launcher/guardian/guardian_fixture.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("a killed guardian takes everything with it, and the agent is told") {
    GuardedRun run;
    run.start(Lines{"setsid-grandchild", "daemon", "ignore-term"});
    number_in(run.out->line());
    number_in(run.out->line());
    CHECK(run.out->line() == "ready");
    ::kill(below_us(kGuardianName).at(0), SIGKILL);
    CHECK(run.take_events(3) == Lines{"the guardian, which runs the workers of this node, was killed",
                                      "signal 9 (SIGKILL)", "gone"});
    CHECK(run.out->rest().empty());
    CHECK(has_no_children());
    CHECK(run.sweep().killed == 0);
    auto result = run.start(stub_spec({"exit", "0"}));
    REQUIRE(std::holds_alternative<StartFailure>(result));
    CHECK(std::get<StartFailure>(result).exit_code == kExitSystem);
    CHECK(std::get<StartFailure>(result).text.find("was killed") != std::string::npos);
}

TEST_CASE("a guardian that is killed between two starts is noticed by the second") {
    GuardedRun run;
    run.start(Lines{"ready-then-wait"});
    ::kill(below_us(kGuardianName).at(0), SIGKILL);
    CHECK(run.out->rest().size() < 2);  // it died with its parent
    CHECK(std::holds_alternative<StartFailure>(run.start(stub_spec({"ready-then-wait"}))));
    CHECK(run.events.empty());
    CHECK(run.take_events(3).size() == 3);
    CHECK(has_no_children());
}

TEST_CASE("with guardian and keeper killed in the same instant the agent cleans up alone") {
    GuardedRun run;
    run.start(Lines{"setsid-grandchild", "daemon", "ignore-term"});
    number_in(run.out->line());
    number_in(run.out->line());
    CHECK(run.out->line() == "ready");
    const pid_t guardian = below_us(kGuardianName).at(0);
    ::kill(below_us(kKeeperName).at(0), SIGKILL);
    ::kill(guardian, SIGKILL);
    CHECK(run.take_events(3).size() == 3);
    CHECK(run.out->rest().empty());
    CHECK(has_no_children());
}

TEST_CASE("without its keeper the guardian works on") {
    GuardedRun run;
    run.start(Lines{"daemon", "ready-then-wait"});
    number_in(run.out->line());
    CHECK(run.out->line() == "ready");
    ::kill(below_us(kKeeperName).at(0), SIGKILL);
    run.runner.reset();
    CHECK(run.out->rest().empty());
    CHECK(has_no_children());
}

TEST_CASE("the runner's end leaves nothing, without a word") {
    GuardedRun run;
    run.start(Lines{"setsid-grandchild", "fork", "ignore-term", "end", "daemon", "ignore-term"});
    number_in(run.out->line());
    run.runner.reset();
    run.out->rest();  // Ends when nobody has the pipe any more.
    run.context.run();
    CHECK(run.events.empty());
    CHECK(has_no_children());
}

TEST_CASE("nothing is left when the agent is killed, nor when it is killed with either of its two") {
    for (const char* companion : {"", kGuardianName, kKeeperName}) {
        INFO("killed with the agent: " << companion);
        std::optional<LineReader> out;
        pid_t agent = -1;
        {
            StdoutToPipe pipe;
            agent = ::fork();
            if (agent == 0) {
                boost::asio::io_context context;
                const auto runner = make_guardian(context.get_executor(), 1, {}, kNoCgroup);
                CallingObserver silent{[](const ExitStatus&) {}, [] {}};
                runner->start(stub_spec({"setsid-grandchild", "daemon", "ignore-term"}), silent);
                context.run();
                ::_exit(1);
            }
            out.emplace(pipe.take_reader());
        }
        number_in(out->line());
        number_in(out->line());
        CHECK(out->line() == "ready");
        const auto companions = below_us(companion);
        CHECK(companions.size() == (*companion == '\0' ? 0 : 1));
        ::kill(agent, SIGKILL);
        for (pid_t pid : companions) ::kill(pid, SIGKILL);
        CHECK(::waitpid(agent, nullptr, 0) == agent);
        // The end comes when the last process that could write has ended.
        CHECK(out->rest().empty());
        // This process is a sub-reaper too, by what other tests did; so its new children end by themselves.
        while (::waitpid(-1, nullptr, 0) > 0) {
        }
    }
}

}  // namespace ddprun
