#include "launcher/features/stuck_workers.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

const StuckWorkers::TimePoint kBegin{1h};

}  // namespace

TEST_CASE(
    "stuck workers: one that is in one wait for the limit is stuck; a look that shows it elsewhere begins anew") {
    StuckWorkers stuck(8s);
    CHECK(stuck.pause() == 2s);
    const WaitSight waits{7, 'D', 40}, runs{7, 'R', 40}, again{7, 'D', 41};
    CHECK_FALSE(stuck.see({waits}, kBegin));
    CHECK_FALSE(stuck.see({waits}, kBegin + 7999ms));
    CHECK(stuck.see({waits}, kBegin + 8s) == 7);
    // It was in another wait in between, though nobody saw it outside.
    CHECK_FALSE(stuck.see({again}, kBegin + 9s));
    CHECK(stuck.see({again}, kBegin + 17s) == 7);
    CHECK_FALSE(stuck.see({runs}, kBegin + 18s));
    CHECK_FALSE(stuck.see({again}, kBegin + 19s));
    // A worker that is gone is forgotten, and another with its number is not it.
    CHECK_FALSE(stuck.see({}, kBegin + 26s));
    CHECK_FALSE(stuck.see({again}, kBegin + 28s));
}

TEST_CASE("stuck workers: of several the first that is stuck is told, and sleeping ones never are") {
    StuckWorkers stuck(4s);
    CHECK_FALSE(stuck.see({{3, 'S', 1}, {4, 'D', 1}, {5, 'D', 2}}, kBegin));
    CHECK(stuck.see({{3, 'S', 1}, {4, 'R', 1}, {5, 'D', 2}}, kBegin + 5s) == 5);
}

TEST_CASE("stuck workers: the limit is a whole number of seconds") {
    CHECK(parse_stuck_limit("60") == 60s);
    for (const char* wrong : {"", "0", "-1", "1.5", "60s", "1e9", "99999999999"})
        CHECK_FALSE(parse_stuck_limit(wrong));
}

TEST_CASE("stuck workers: the mount is that of the descriptor that the system call is about") {
    const TemporaryFolder proc;
    const auto process = std::filesystem::path(proc.path()) / "77";
    std::filesystem::create_directories(process / "fd");
    std::ofstream(process / "mountinfo") << "36 22 0:45 / /data rw - nfs4 server:/x rw\n";
    std::filesystem::create_symlink("/data/set.bin", process / "fd" / "3");
    const auto awaited = [&](const std::string& call) {
        std::ofstream(process / "syscall") << call << "\n";
        return awaited_mount(77, proc.path());
    };
    CHECK(awaited("0 0x3 0x7f0000001000 0x1000 0x0 0x0 0x0 0x7ffc 0x7f1") == "/data (nfs4, server:/x)");
    CHECK(awaited("0 0x4 0x7f0000001000 0x1000 0x0 0x0 0x0 0x7ffc 0x7f1").empty());
    CHECK(awaited("257 0xffffff9c 0x7f0000001000 0x0 0x0 0x0 0x0 0x7ffc 0x7f1").empty());
    CHECK(awaited("running").empty());
    CHECK(awaited("-1 0x7ffc 0x7f1").empty());
    CHECK(awaited_mount(78, proc.path()).empty());
}

}  // namespace ddprun
