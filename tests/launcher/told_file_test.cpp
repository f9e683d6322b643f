#include "launcher/told_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "rendezvous/base/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("a file that is named is read whole, be it a file or a pipe") {
    TemporaryFolder folder;
    CHECK(read_told_file(folder.file("plain", "a b\n"), 4).value() == "a b\n");
    CHECK(read_told_file("/dev/null", 4).value().empty());
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    REQUIRE(::write(pipe[1], "host", 4) == 4);
    ::close(pipe[1]);
    const std::string name = "/proc/self/fd/" + std::to_string(pipe[0]);
    const ToldFiles files;
    CHECK(files.read(name, 9).value() == "host");
    CHECK(ToldFiles(files).read(name, 9).value() == "host");
    CHECK(files.read(pipe[0], 9).value().empty());
    CHECK(read_told_file(name, 9).value().empty());
    ::close(pipe[0]);
    const std::string fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    std::thread writer([&fifo] {
        const int end = ::open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
        for (int i = 0; i < 3; ++i) [[maybe_unused]] const auto ignored = ::write(end, "x\n", 2);
        ::close(end);
    });
    CHECK(read_told_file(fifo, 9).value() == "x\nx\nx\n");
    writer.join();
}

TEST_CASE("a file that cannot be read whole is refused") {
    TemporaryFolder folder;
    CHECK(read_told_file(folder.path(), 9).error() == boost::system::errc::is_a_directory);
    CHECK(read_told_file("/nowhere", 9).error() == boost::system::errc::no_such_file_or_directory);
    CHECK(read_told_file(folder.file("long", "0123456789"), 9).error() ==
          make_error_code(Errc::limit_exceeded));
    CHECK(read_told_file("/dev/zero", 9).error() == make_error_code(Errc::limit_exceeded));
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    CHECK(read_told_file("/proc/self/fd/" + std::to_string(pipe[0]), 9, 20ms).error() ==
          boost::system::errc::timed_out);
    ::close(pipe[0]);
    ::close(pipe[1]);
}

}  // namespace ddprun
