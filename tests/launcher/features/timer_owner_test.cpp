#include "launcher/features/watchdog.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

ProcessStat process(pid_t pid, pid_t parent, pid_t group) {
    return {.pid = pid, .command = "x", .state = 'S', .parent = parent, .process_group = group};
}

}  // namespace

TEST_CASE("timer owner: a worker, what is below it and in its process group, and nobody else") {
    // The launcher 10, its guardian 20, workers 30 and 40; 31 below 30, 32 below that in a session of its
    // own, 33 an orphan of 30's group, 34 one of another; 50 is a stranger's.
    const std::vector<ProcessStat> processes{process(10, 1, 10),  process(20, 10, 20), process(30, 20, 30),
                                             process(40, 20, 40), process(31, 30, 30), process(32, 31, 32),
                                             process(33, 20, 30), process(34, 20, 34), process(50, 1, 50),
                                             process(61, 62, 61), process(62, 61, 61)};
    struct Row {
        pid_t pid;
        std::optional<pid_t> owner;
    };
    const Row rows[] = {{30, 30},           {40, 40},          {31, 30},           {32, 30},
                        {33, 30},           {34, {}},          {10, std::nullopt}, {20, std::nullopt},
                        {50, std::nullopt}, {1, std::nullopt}, {61, {}},           {99, std::nullopt}};
    for (const Row& row : rows) {
        CAPTURE(row.pid);
        CHECK(owner_of(row.pid, {30, 40}, processes) == row.owner);
    }
    CHECK_FALSE(owner_of(31, {}, processes));
    // Its number is not in the table any more.
    CHECK_FALSE(owner_of(30, {30}, {}));
}

}  // namespace ddprun
