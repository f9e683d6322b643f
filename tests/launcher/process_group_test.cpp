#include "launcher/process_group.hpp"

#include <unistd.h>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("the process group and the state in a line of /proc/<pid>/stat") {
    auto plain = parse_process_stat("12 (sh) S 1 345 345 0 -1 4194560");
    REQUIRE(plain.has_value());
    CHECK(plain->process_group == 345);
    CHECK_FALSE(plain->ended);

    auto zombie = parse_process_stat("12 (sh) Z 1 345 345 0 -1");
    REQUIRE(zombie.has_value());
    CHECK(zombie->ended);

    auto nasty = parse_process_stat("12 (a) Z 1 9 (b)\n) R 77 88 88 0");
    REQUIRE(nasty.has_value());
    CHECK(nasty->process_group == 88);
    CHECK_FALSE(nasty->ended);

    for (const char* line : {"", "12", "12 (sh)", "12 (sh) S", "12 (sh) S 1", "12 (sh) S 1 x"}) {
        INFO(line);
        CHECK_FALSE(parse_process_stat(line).has_value());
    }
}

TEST_CASE("a group is alive while one member is more than a zombie") {
    // The number must exist for kill(2), the rest is read from the given folder.
    const pid_t own = ::getpgrp();
    const std::string number = std::to_string(own);
    TemporaryFolder proc;
    std::filesystem::create_directories(proc.path() / "7");
    std::filesystem::create_directories(proc.path() / "8");
    std::filesystem::create_directories(proc.path() / "9");
    CHECK_FALSE(process_group_alive(own, proc.path()));
    proc.file("7/stat", "7 (a) S 1 1 1 0\n");
    proc.file("8/stat", "8 (a) Z 1 " + number + " 1 0\n");
    proc.file("self", "no folder");
    CHECK_FALSE(process_group_alive(own, proc.path()));
    proc.file("9/stat", "9 (a) S 1 " + number + " 1 0\n");
    CHECK(process_group_alive(own, proc.path()));
    CHECK(process_group_alive(own, proc.path() / "missing"));
    CHECK(process_group_alive(own));
}

}  // namespace ddprun
