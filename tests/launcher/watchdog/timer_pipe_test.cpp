#include "launcher/watchdog/timer_pipe.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>

#include "rendezvous/system/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Environment with_place(const fs::path& place) {
    return {{kEnableTimersVariable, "1"}, {kTimerFileVariable, place.string()}};
}

}  // namespace

TEST_CASE("timer pipe: only 1 asks for it") {
    CHECK(wants_timers({{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}));
    CHECK_FALSE(wants_timers({{"TORCHELASTIC_ENABLE_FILE_TIMER", "0"}}));
    CHECK_FALSE(wants_timers({{"TORCHELASTIC_ENABLE_FILE_TIMER", "true"}}));
    CHECK_FALSE(wants_timers({{"TORCHELASTIC_TIMER_FILE", "/tmp/a"}}));
}

TEST_CASE("timer pipe: a new one among the temporary files, for its user alone, gone with its owner") {
    const TemporaryFolder folder;
    std::string path;
    {
        const TimerPipe pipe({}, folder.path().string());
        const TimerPipe other({{kTimerFileVariable, ""}}, folder.path().string());
        path = pipe.path();
        CHECK(fs::path(path).parent_path() == folder.path());
        CHECK(other.path() != path);
        struct stat info {};
        REQUIRE(::lstat(path.c_str(), &info) == 0);
        CHECK(S_ISFIFO(info.st_mode));
        CHECK((info.st_mode & 0777) == 0600);
        CHECK_FALSE(pipe.is_elsewhere());
    }
    CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("timer pipe: at the place that the user says") {
    const TemporaryFolder folder;
    const fs::path place = folder.path() / "timers";
    SECTION("where an earlier launcher has left one") {
        REQUIRE(::mkfifo(place.c_str(), 0644) == 0);
        const TimerPipe pipe(with_place(place), folder.path().string());
        CHECK(pipe.path() == place.string());
        CHECK((fs::status(place).permissions() & fs::perms::all) == fs::perms(0600));
    }
    SECTION("where another launcher has one, which stays") {
        const TimerPipe first(with_place(place), folder.path().string());
        const TimerPipe second(with_place(place), folder.path().string());
        CHECK(first.path() == place.string());
        CHECK(second.is_elsewhere());
        CHECK(second.path() != first.path());
        CHECK(fs::is_fifo(place));
    }
    SECTION("where something else is, which stays") {
        std::ofstream(place) << "mine";
        CHECK_THROWS_WITH(TimerPipe(with_place(place), folder.path().string()),
                          Catch::Contains(kTimerFileVariable) && Catch::Contains(place.string()) &&
                              Catch::Contains("no named pipe"));
        CHECK(fs::file_size(place) == 4);
    }
    SECTION("where none can be made") {
        CHECK_THROWS_WITH(TimerPipe(with_place(folder.path() / "no" / "timers"), folder.path().string()),
                          Catch::Contains(kEnableTimersVariable));
    }
    SECTION("what somebody else has put there meanwhile is not removed") {
        {
            const TimerPipe pipe(with_place(place), folder.path().string());
            fs::remove(place);
            std::ofstream(place) << "mine";
        }
        CHECK(fs::file_size(place) == 4);
    }
}

}  // namespace ddprun
