#include "launcher/features/watchdog.hpp"

#include <sys/stat.h>

#include <array>
#include <barrier>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/base/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

namespace fs = std::filesystem;

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
        const TimerPipe pipe("", folder.path().string());
        const TimerPipe other("", folder.path().string());
        path = pipe.path();
        CHECK(fs::path(path).parent_path() == folder.path());
        CHECK(other.path() != path);
        struct stat info {};
        REQUIRE(::lstat(path.c_str(), &info) == 0);
        CHECK(S_ISFIFO(info.st_mode));
        CHECK((info.st_mode & 0777) == 0600);
        CHECK((info.st_mode & S_ISVTX) != 0);  // see systemd's tmpfiles.d(5) and XDG_RUNTIME_DIR
        CHECK_FALSE(pipe.is_elsewhere());
    }
    CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("timer pipe: at the place that the user says") {
    const TemporaryFolder folder;
    const fs::path place = folder.path() / "timers";
    SECTION("where an earlier launcher has left one") {
        REQUIRE(::mkfifo(place.c_str(), 0644) == 0);
        const TimerPipe pipe(place.string(), folder.path().string());
        CHECK(pipe.path() == place.string());
        CHECK((fs::status(place).permissions() & fs::perms::all) == fs::perms(0600));
    }
    SECTION("where another launcher has one, which stays") {
        const TimerPipe first(place.string(), folder.path().string());
        const TimerPipe second(place.string(), folder.path().string());
        CHECK(first.path() == place.string());
        CHECK(second.is_elsewhere());
        CHECK(second.path() != first.path());
        CHECK(fs::is_fifo(place));
    }
    SECTION("where something else is, which stays") {
        std::ofstream(place) << "mine";
        CHECK_THROWS_WITH(TimerPipe(place.string(), folder.path().string()),
                          Catch::Contains(kTimerFileVariable) && Catch::Contains(place.string()) &&
                              Catch::Contains("no named pipe"));
        CHECK(fs::file_size(place) == 4);
    }
    SECTION("where none can be made") {
        CHECK_THROWS_WITH(TimerPipe((folder.path() / "no" / "timers").string(), folder.path().string()),
                          Catch::Contains(kEnableTimersVariable));
    }
    SECTION("what somebody else has put there meanwhile is not removed") {
        {
            const TimerPipe pipe(place.string(), folder.path().string());
            fs::remove(place);
            std::ofstream(place) << "mine";
        }
        CHECK(fs::file_size(place) == 4);
    }
}

TEST_CASE("timer pipe: of launchers that begin at once one has the place, and the others have their own") {
    const TemporaryFolder folder;
    const fs::path place = folder.path() / "timers";
    constexpr int kLaunchers = 4;
    for (int round = 0; round < 200; ++round) {
        const bool is_left = round % 2 == 0;  // by an earlier launcher
        if (is_left) REQUIRE(::mkfifo(place.c_str(), 0600) == 0);
        std::barrier together(kLaunchers);
        std::array<std::unique_ptr<TimerPipe>, kLaunchers> pipes;
        std::array<std::string, kLaunchers> troubles;
        std::vector<std::thread> launchers;
        for (std::size_t i = 0; i < kLaunchers; ++i) {
            launchers.emplace_back([&, i] {
                together.arrive_and_wait();
                try {
                    pipes[i] = std::make_unique<TimerPipe>(place.string(), folder.path().string());
                } catch (const boost::system::system_error& error) {
                    troubles[i] = error.what();
                }
            });
        }
        for (std::thread& launcher : launchers) launcher.join();
        int owners = 0;
        for (std::size_t i = 0; i < kLaunchers; ++i) {
            REQUIRE(troubles[i].empty());
            owners += pipes[i]->is_elsewhere() ? 0 : 1;
            REQUIRE((pipes[i]->path() == place.string()) != pipes[i]->is_elsewhere());
            REQUIRE(fs::is_fifo(pipes[i]->path()));
        }
        REQUIRE(owners == 1);
        pipes = {};
        REQUIRE(fs::is_empty(folder.path()));
    }
}

}  // namespace ddprun
