#include "launcher/process/signal_delivery.hpp"

#include <unistd.h>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

namespace {

bool process_group_alive(pid_t group, const std::filesystem::path& proc = "/proc") {
    return OwnProcesses(proc).has_group(group);
}

}  // namespace

TEST_CASE("a group is alive while one member is more than a zombie") {
    // The number must exist for kill(2), the rest is read from the given folder.
    const pid_t own = ::getpgrp();
    const std::string number = std::to_string(own);
    TemporaryFolder proc;
    const std::string self = std::to_string(::getpid());
    std::filesystem::create_directories(proc.path() / self);
    proc.file(self + "/stat", self + " (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n");
    std::filesystem::create_directories(proc.path() / "7");
    std::filesystem::create_directories(proc.path() / "8");
    std::filesystem::create_directories(proc.path() / "9");
    CHECK_FALSE(process_group_alive(own, proc.path()));
    proc.file("7/stat", "7 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n");
    proc.file("8/stat", "8 (a) Z 1 " + number + " 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n");
    proc.file("self", "no folder");
    CHECK_FALSE(process_group_alive(own, proc.path()));
    proc.file("9/stat", "9 (a) S 1 " + number + " 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n");
    CHECK(process_group_alive(own, proc.path()));
    CHECK(process_group_alive(own, proc.path() / "missing"));
    CHECK(process_group_alive(own));
    // An empty folder, since /proc is not mounted there: zombies cannot be told from the living.
    CHECK(process_group_alive(own, TemporaryFolder().path()));
}

}  // namespace ddprun
