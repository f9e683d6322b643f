#include "launcher/process/process_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

ProcessStat process(pid_t pid, pid_t parent, std::uint64_t start_time = 5) {
    ProcessStat result;
    result.pid = pid;
    result.parent = parent;
    result.start_time = start_time;
    return result;
}

std::vector<pid_t> pids(const std::vector<ProcessStat>& processes) {
    std::vector<pid_t> result;
    for (const ProcessStat& one : processes) result.push_back(one.pid);
    return result;
}

}  // namespace

TEST_CASE("a line of /proc/<pid>/stat, whatever the command is called") {
    auto plain =
        parse_process_stat("12 (sh) S 1 345 346 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 3133440 394\n");
    REQUIRE(plain.has_value());
    CHECK(plain->pid == 12);
    CHECK(plain->command == "sh");
    CHECK(plain->state == 'S');
    CHECK(plain->parent == 1);
    CHECK(plain->process_group == 345);
    CHECK(plain->start_time == 777);
    CHECK_FALSE(plain->ended());

    auto nasty = parse_process_stat("12 (a) Z 1 9 (b)\n) Z 77 88 88 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 6 0");
    REQUIRE(nasty.has_value());
    CHECK(nasty->command == "a) Z 1 9 (b)\n");
    CHECK(nasty->parent == 77);
    CHECK(nasty->process_group == 88);
    CHECK(nasty->ended());

    for (const char* line : {"", "12", "12 (sh)", "12 (sh) ", "12 (sh) S", "12 (sh) S 1 2 3", "(sh) S 1 2 3",
                             ")(", "x (sh) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9",
                             "1 (sh) S x 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9"}) {
        INFO(line);
        CHECK_FALSE(parse_process_stat(line).has_value());
    }
}

TEST_CASE("this process is in the table as it knows itself") {
    const auto self = read_process_stat(::getpid());
    REQUIRE(self.has_value());
    CHECK(self->parent == ::getppid());
    CHECK(self->process_group == ::getpgrp());
    CHECK(self->state == 'R');
    const auto table = read_process_table();
    REQUIRE(table.has_value());
    const auto found =
        std::find_if(table->begin(), table->end(), [](const auto& one) { return one.pid == ::getpid(); });
    REQUIRE(found != table->end());
    CHECK(found->start_time == self->start_time);
    TemporaryFolder nothing;
    CHECK_FALSE(read_process_table(nothing.path() / "missing").has_value());
    CHECK(read_process_table(nothing.path())->empty());
    CHECK_FALSE(read_process_stat(1, nothing.path()).has_value());
}

TEST_CASE("own processes: this one and all below it, and no file of another one is opened") {
    TemporaryFolder proc;
    const auto add = [&proc](pid_t pid, const std::string& children) {
        const std::string number = std::to_string(pid);
        std::filesystem::create_directories(proc.path() / number / "task" / number);
        std::filesystem::create_directories(proc.path() / number / "task" / (number + "0"));
        proc.file(number + "/stat", number + " (sh) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n");
        proc.file(number + "/task/" + number + "/children", children);
        // Another thread, with a child of its own.
        if (pid == 7) proc.file("7/task/70/children", "8 ");
    };
    add(::getpid(), "7 9 ");
    add(7, "");
    add(8, "");
    add(9, "77 ");  // which has ended meanwhile
    add(6, "5 ");
    CHECK(pids(read_own_processes(proc.path()).value()) == std::vector<pid_t>{::getpid(), 7, 9, 8});

    // A kernel that lists no children.
    std::filesystem::remove_all(proc.path() / std::to_string(::getpid()) / "task");
    CHECK(read_own_processes(proc.path())->size() == 5);
    CHECK_FALSE(read_own_processes(proc.path() / "missing").has_value());
    std::filesystem::remove_all(proc.path() / std::to_string(::getpid()));
    CHECK_FALSE(sees_own_processes(proc.path()));
    CHECK_FALSE(read_own_processes(proc.path()).has_value());
}

TEST_CASE("own processes: who changes its parent is found") {
    StubRun run({"daemon", "ready-then-wait"});
    const pid_t daemon = std::stoi(run.out().line().value().substr(4));
    CHECK(run.out().line() == "ready");
    const auto own = pids(read_own_processes().value());
    CHECK(own.front() == ::getpid());
    for (const pid_t pid : {run.pid(), daemon}) CHECK(std::count(own.begin(), own.end(), pid) == 1);
    CHECK(std::count(own.begin(), own.end(), ::getppid()) == 0);
    run.runner().signal_worker(run.pid(), SIGKILL, SignalScope::group);
    run.wait();
}

TEST_CASE("descendants: parents before children, nothing else") {
    const std::vector<ProcessStat> table{process(1, 0), process(9, 7), process(7, 5), process(5, 1),
                                         process(6, 1), process(8, 5), process(4, 9)};
    CHECK(pids(descendants(table, 5)) == std::vector<pid_t>{7, 8, 9, 4});
    CHECK(pids(descendants(table, 4)).empty());
    CHECK(pids(descendants(table, 77)).empty());
    CHECK(pids(descendants(table, 5, {process(7, 5)})) == std::vector<pid_t>{8});
    // The same number, but another process.
    CHECK(pids(descendants(table, 5, {process(7, 5, 4)})).size() == 4);
}

TEST_CASE("descendants: a table that was read while numbers changed hands") {
    CHECK(pids(descendants({process(2, 3), process(3, 2), process(5, 5)}, 2)) == std::vector<pid_t>{3});
    CHECK(pids(descendants({process(5, 5)}, 5)).empty());
}

TEST_CASE("a survivor is described by what it waits for") {
    TemporaryFolder proc;
    std::filesystem::create_directories(proc.path() / "7");
    ProcessStat stuck = process(7, 1);
    stuck.state = 'D';
    stuck.command = "py\nthon\x1b";
    CHECK(to_string(describe_survivor(stuck, proc.path())) == "pid 7 (py?thon?, state D)");
    proc.file("7/wchan", "nfs_wait_bit_killable");
    CHECK(to_string(describe_survivor(stuck, proc.path())) ==
          "pid 7 (py?thon?, state D in nfs_wait_bit_killable)");
    proc.file("7/wchan", "0");
    CHECK(describe_survivor(stuck, proc.path()).wchan.empty());
    CHECK(to_string(Survivor{}) == "pid 0 (state ?)");
}

}  // namespace ddprun
