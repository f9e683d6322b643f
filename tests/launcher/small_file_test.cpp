#include "launcher/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "rendezvous/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) { return read_small_file(path, 1 << 20).value(); }

std::size_t entries(const fs::path& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("small files are read whole, up to the limit") {
    TemporaryFolder folder;
    const fs::path path = folder.file("a", "12345");
    CHECK(read_small_file(path, 5).value() == "12345");
    CHECK(read_small_file(path, 4).error() == make_error_code(Errc::limit_exceeded));
    CHECK(read_small_file(folder.file("empty", ""), 0).value().empty());
    const std::string large(300'000, 'x');
    CHECK(read_small_file(folder.file("large", large), 300'000).value() == large);
    CHECK_THAT(read_small_file("/proc/self/status", 1 << 20).value(), Catch::StartsWith("Name:"));
}

TEST_CASE("what is no readable regular file is refused at once") {
    TemporaryFolder folder;
    CHECK(read_small_file(folder.path() / "nothing", 10).error().value() == ENOENT);
    CHECK(read_small_file(folder.path(), 10).error().value() == EINVAL);
    const fs::path fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(read_small_file(fifo, 10).error().value() == EINVAL);
    CHECK(read_small_file("/dev/zero", 10).error().value() == EINVAL);
}

TEST_CASE("a file is replaced as a whole, by the user's umask") {
    TemporaryFolder folder;
    const fs::path path = folder.path() / "new";
    const mode_t umask = ::umask(027);
    CHECK_FALSE(replace_file(path, "first"));
    ::umask(umask);
    CHECK(content(path) == "first");
    CHECK(fs::status(path).permissions() == fs::perms(0640));

    const int old = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    CHECK_FALSE(replace_file(path, "second, longer"));
    char bytes[16] = {};
    CHECK(::read(old, bytes, sizeof bytes) == 5);  // who has it open keeps what was there
    ::close(old);
    CHECK(content(path) == "second, longer");
    CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a link is followed, and what is no file is written to as it is") {
    TemporaryFolder folder;
    const fs::path target = folder.file("target", "old");
    const fs::path link = folder.path() / "link";
    fs::create_symlink("target", link);
    CHECK_FALSE(replace_file(link, "new"));
    CHECK(fs::is_symlink(link));
    CHECK(content(target) == "new");

    CHECK_FALSE(replace_file("/dev/null", "gone"));
    CHECK(fs::is_character_file("/dev/null"));

    const fs::path fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(replace_file(fifo, "nobody reads").value() == ENXIO);
    CHECK(fs::is_fifo(fifo));
}

TEST_CASE("what cannot be written is reported and leaves nothing behind") {
    TemporaryFolder folder;
    CHECK(replace_file(folder.path() / "no" / "folder", "x").value() == ENOENT);
    CHECK(replace_file("/dev/full", "x").value() == ENOSPC);
    const fs::path busy = folder.path() / "busy";
    fs::create_directory(busy);
    CHECK(replace_file(busy, "x").value() == EISDIR);
    CHECK(entries(folder.path()) == 1);
}

}  // namespace ddprun
