#include "launcher/features/event_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "launcher/output/happenings.hpp"
#include "rendezvous/system/small_file.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

AppendedFile opened(const std::string& path) {
    return std::get<AppendedFile>(open_appended_file("--events", path));
}

std::string content(const std::string& path) { return *read_small_file(path, 1 << 20); }

// Holds nothing more, and is read by nobody.
OwnedDescriptor full_fifo(const std::string& path) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    OwnedDescriptor reader(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    const std::string block(4096, 'x');
    while (::write(reader.get(), block.data(), block.size()) > 0) {
    }
    return reader;
}

}  // namespace

TEST_CASE("event file: lines are put behind what is there, also those from before the thread") {
    TemporaryFolder folder;
    const std::string path = folder.file("events", "before\n");
    EventFile file(opened(path));
    file.append("one\ntwo\n");
    CHECK(content(path) == "before\n");
    file.start();
    file.append("three\n");
    CHECK_FALSE(file.close(kHangGuard));
    CHECK(content(path) == "before\none\ntwo\nthree\n");
    CHECK_FALSE(file.close(kHangGuard));
    CHECK_FALSE(file.take_trouble());
}

TEST_CASE("event file: its descriptor is no worker's, and its bytes are its owner's alone") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "events";
    EventFile file(opened(path));
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry.path(), gone) != path) continue;
        ++found;
        CHECK((::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
    }
    CHECK(found == 1);
}

TEST_CASE("event file: what cannot be written is said once, and keeps nobody") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "fifo";
    const OwnedDescriptor reader = full_fifo(path);
    EventFile file(opened(path));
    file.start();
    for (int i = 0; i < 100; ++i) file.append("lost\n");
    const auto trouble = file.close(kHangGuard);
    REQUIRE(trouble);
    CHECK(*trouble ==
          "cannot write " + path +
              " (--events): Resource temporarily unavailable; lines are lost there, the job goes on");
    CHECK_FALSE(file.take_trouble());
    const auto refused = open_appended_file("--events", folder.path() / "no" / "file");
    CHECK(std::get<std::string>(refused).find("--events '") == 0);
}

TEST_CASE("event file: more than may wait is lost, which is said once") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "events";
    EventFile file(opened(path), 8);
    file.append("1234567\n");  // just as much
    CHECK_FALSE(file.take_trouble());
    file.append("x\n");
    REQUIRE(file.take_trouble() ==
            "cannot write " + path +
                " (--events): more comes than it takes; lines are lost there, the job goes on");
    file.append("x\n");
    CHECK_FALSE(file.take_trouble());
    CHECK_FALSE(file.close(kHangGuard));
    CHECK(content(path) == "1234567\n");
}

TEST_CASE("event file: a process that was forked off writes for this one, too") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "events";
    EventFile file(opened(path));
    file.append("another process's\n");
    file.forget();
    CHECK_FALSE(file.close(kHangGuard));
    CHECK(content(path).empty());
}

TEST_CASE("event log: the end of the job is told where somebody has asked for events, and not elsewhere") {
    boost::asio::io_context context(1);
    LauncherLog log;
    for (const bool is_asked : {false, true}) {
        FakeAgent agent(context.get_executor());
        FeatureInputs inputs{.options = agent.given, .log = log};
        const auto events = make_event_log(inputs);
        events->began(agent);
        CHECK(agent.told.empty());
        if (is_asked) events->learnt(EventTold{});
        const auto before = agent.count<EventTold>();
        CHECK((before > 0) == is_asked);
        events->learnt(SignalReceived{15});
        CHECK(agent.count<EventTold>() == before);
        CHECK_FALSE(events->ended(JobResult{}));
        CHECK((agent.count<EventTold>() > before + 1) == is_asked);
        if (is_asked) CHECK(std::get<EventTold>(agent.told.back()).lines.ends_with("\n"));
        events->agent_leaves();
    }
}

TEST_CASE("happenings: events are read on from a position, as long as they are kept") {
    Happenings happenings;
    CHECK(happenings.read(0, 100) == KeptPiece{0, true, {}});
    happenings.add("one\ntwo\nthree\n");
    const auto piece = [](std::uint64_t next, bool is_all, const std::string& text, std::uint64_t at) {
        return KeptPiece{next, is_all, {{KeptBlock::kNoRank, "events", 0, text, at}}};
    };
    CHECK(happenings.read(0, 1000) == piece(3, true, "one\ntwo\nthree\n", 0));
    CHECK(happenings.read(0, 5) == piece(2, false, "one\ntwo\n", 0));
    CHECK(happenings.read(2, 1) == piece(3, true, "three\n", 8));
    CHECK(happenings.read(3, 1000) == KeptPiece{3, true, {}});
    // By the count of another launcher there were more.
    CHECK(happenings.read(UINT64_MAX, 1000) == KeptPiece{UINT64_MAX, true, {}});
    for (std::size_t i = 0; i < Happenings::kMost; ++i) happenings.add("x\n");
    CHECK(happenings.end() == Happenings::kMost + 3);
    CHECK(happenings.read(0, 1) == piece(4, false, "x\n", 14));
}

}  // namespace ddprun
