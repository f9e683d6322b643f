#include "rendezvous/store/file_store.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "rendezvous/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// A path in a directory of its own, both removed at the end.
class TemporaryFile {
  public:
    TemporaryFile() {
        char pattern[] = "/tmp/ddprun-file-store-XXXXXX";
        REQUIRE(::mkdtemp(pattern) != nullptr);
        directory_ = pattern;
    }
    ~TemporaryFile() {
        ::unlink(path().c_str());
        ::rmdir(directory_.c_str());
    }
    std::string path() const { return directory_ + "/store"; }
    std::string contents() const {
        std::ifstream in(path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(std::string_view bytes) const {
        std::ofstream out(path(), std::ios::binary | std::ios::trunc);
        out << bytes;
    }

  private:
    std::string directory_;
};

// Of watches the user may have as many as the system says, over all processes.
constexpr char kNoWatch[] = "skipped: there is no watch of files to be had";

// How many descriptors of this are open; each ends with an exec.
int open_descriptors(const std::string& what) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry.path(), gone) != what) continue;
        ++count;
        CHECK((::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
    }
    return count;
}

}  // namespace

TEST_CASE("file store: every verb, seen by a second store on the same file") {
    TemporaryFile file;
    FileStore one(file.path());
    FileStore two(file.path());
    one.set("k", "v");
    CHECK(two.get("k", milliseconds(0)) == "v");
    two.set("empty", "");
    CHECK(one.get("empty", milliseconds(0)).empty());
    const std::string binary("\0\xFF\n\0", 4);
    one.set(binary, binary);
    CHECK(two.get(binary, milliseconds(0)) == binary);
    CHECK(one.add("n", 5) == 5);
    CHECK(two.add("n", -7) == -2);
    CHECK(one.get("n", milliseconds(0)) == "-2");
    CHECK(one.compare_set("k", "x", "y") == "v");
    CHECK(one.compare_set("k", "v", "y") == "y");
    CHECK(two.get("k", milliseconds(0)) == "y");
    CHECK(one.compare_set("new", "x", "y") == "x");
    CHECK_FALSE(one.check_keys({"new"}));
    CHECK(one.compare_set("new", "", "y") == "y");
    CHECK(two.check_keys({"k", "n", "new"}));
    CHECK(one.erase("k"));
    CHECK_FALSE(two.erase("k"));
    CHECK_FALSE(two.check_keys({"k"}));
    CHECK(error_of([&] { two.add("new", 1); }).code == Errc::malformed);
    CHECK(two.add("n", 1) == -1);

    struct stat status {};
    REQUIRE(::stat(file.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("file store: a store that comes later sees everything, large values too") {
    TemporaryFile file;
    const std::string large(std::size_t{3} << 20, 'v');
    {
        FileStore store(file.path());
        store.set("large", large);
        store.set("k", "old");
        store.set("k", "new");
        store.set("gone", "v");
        store.erase("gone");
    }
    FileStore store(file.path());
    CHECK(store.get("large", milliseconds(0)) == large);
    CHECK(store.get("k", milliseconds(0)) == "new");
    CHECK_FALSE(store.check_keys({"gone"}));
}

TEST_CASE("file store: waiting ends with the key, or with the time") {
    TemporaryFile file;
    FileStore store(file.path());
    auto error = error_of([&] { store.wait({"there", "a"}, milliseconds(1)); });
    CHECK(error.code == Errc::timed_out);
    CHECK(error.mentions("\"a\""));
    CHECK(error.mentions(file.path()));
    std::thread other([&] {
        FileStore setter(file.path());
        setter.set("a", "1");
        setter.set("b", "2");
    });
    store.wait({"a", "b"}, kHangGuard);
    other.join();
    CHECK(store.get("b", milliseconds(0)) == "2");
}

TEST_CASE("file store: a writer's change wakes a waiter through the kernel, long before the next look") {
    TemporaryFile file;
    FileStore one(file.path());
    FileStore two(file.path());
    constexpr int kTurns = 300;
    std::thread other([&] {
        for (int i = 0; i < kTurns; ++i) {
            two.get("ping" + std::to_string(i), kHangGuard);
            two.set("pong" + std::to_string(i), "v");
        }
    });
    int quick = 0;
    for (int i = 0; i < kTurns; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        one.set("ping" + std::to_string(i), "v");
        one.get("pong" + std::to_string(i), kHangGuard);
        if (std::chrono::steady_clock::now() - begin < FileStore::kRecheckPeriod / 2) ++quick;
    }
    other.join();
    // By looking every period alone, each turn would take two of them.
    if (open_descriptors("anon_inode:inotify") == 2) {
        CHECK(quick >= kTurns / 10);
    } else {
        std::puts(kNoWatch);
    }
}

TEST_CASE("file store: processes adding at the same time lose nothing") {
    TemporaryFile file;
    constexpr int kProcesses = 4;
    constexpr int kAdds = 200;
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
        pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            FileStore store(file.path());
            for (int j = 0; j < kAdds; ++j) store.add("n", 1);
            ::_exit(0);
        }
        children.push_back(child);
    }
    for (pid_t child : children) {
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    CHECK(FileStore(file.path()).add("n", 0) == kProcesses * kAdds);
}

TEST_CASE("file store: a torn last record is ignored by readers and cut off by the next writer") {
    TemporaryFile file;
    std::string whole, before;
    {
        FileStore store(file.path());
        store.set("a", "1");
        before = file.contents();
        store.set("b", "a value that is torn");
        whole = file.contents();
    }
    for (std::size_t size = before.size(); size < whole.size(); ++size) {
        INFO("torn after " << size << " of " << whole.size() << " bytes");
        file.write(whole.substr(0, size));
        FileStore reader(file.path());
        REQUIRE(reader.check_keys({"a"}));
        REQUIRE_FALSE(reader.check_keys({"b"}));
        REQUIRE(file.contents().size() == size);
        FileStore writer(file.path());
        writer.set("c", "3");
        constexpr std::size_t kHeader = 17;
        REQUIRE(file.contents().size() == before.size() + kHeader + 2);
        REQUIRE(reader.get("c", milliseconds(0)) == "3");
        REQUIRE_FALSE(reader.check_keys({"b"}));
        REQUIRE(FileStore(file.path()).check_keys({"a", "c"}));
    }
}

TEST_CASE("file store: a torn first record, and one whose bytes never reached the disk") {
    TemporaryFile file;
    std::string whole;
    {
        FileStore store(file.path());
        store.set("a", "1");
        whole = file.contents();
    }
    for (std::size_t size = 0; size < whole.size(); ++size) {
        file.write(whole.substr(0, size));
        FileStore store(file.path());
        REQUIRE_FALSE(store.check_keys({"a"}));
        store.set("b", "2");
        REQUIRE(store.get("b", milliseconds(0)) == "2");
    }
    // After a machine's crash the length may be right and the content zero.
    for (std::size_t position = whole.size(); position < 2 * whole.size(); ++position) {
        std::string damaged = whole + whole;
        damaged[position] = static_cast<char>(damaged[position] ^ 0x20);
        file.write(damaged);
        FileStore store(file.path());
        REQUIRE(store.check_keys({"a"}));
        store.set("b", "2");
        REQUIRE(FileStore(file.path()).check_keys({"a", "b"}));
    }
}

TEST_CASE("file store: a writer that is killed leaves no lock and no half change") {
    TemporaryFile file;
    for (int i = 0; i < 10; ++i) {
        int ready[2];
        REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
        pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            FileStore store(file.path());
            store.set("started", "1");
            (void)!::write(ready[1], "r", 1);
            for (;;) store.set("k", std::string(100'000, 'v'));
        }
        char byte = 0;
        REQUIRE(::read(ready[0], &byte, 1) == 1);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        ::close(ready[0]);
        ::close(ready[1]);
        FileStore store(file.path());
        CHECK(store.get("started", milliseconds(0)) == "1");
        store.set("after", std::to_string(i));
        CHECK(FileStore(file.path()).get("after", milliseconds(0)) == std::to_string(i));
        if (store.check_keys({"k"})) CHECK(store.get("k", milliseconds(0)).size() == 100'000);
    }
}

TEST_CASE("file store: somebody else's file is not touched") {
    TemporaryFile file;
    file.write("some text that is no store");
    FileStore store(file.path());
    CHECK(error_of([&] { store.set("k", "v"); }).code == Errc::malformed);
    CHECK(error_of([&] { store.check_keys({"k"}); }).code == Errc::malformed);
    CHECK(file.contents() == "some text that is no store");
}

TEST_CASE("file store: limits and paths") {
    TemporaryFile file;
    FileStore store(file.path());
    CHECK(error_of([&] { store.set(std::string(FileStore::kMaxKeyLength + 1, 'k'), "v"); }).code ==
          Errc::limit_exceeded);
    CHECK(error_of([&] { store.set("k", std::string(FileStore::kMaxValueLength + 1, 'v')); }).code ==
          Errc::limit_exceeded);
    CHECK(file.contents().empty());
    auto error = error_of([] { FileStore("/no/such/directory/store"); });
    CHECK(error.code.value() == ENOENT);
    CHECK(error.mentions("/no/such/directory/store"));
}

TEST_CASE("file store: descriptors do not survive an exec") {
    TemporaryFile file;
    FileStore store(file.path());
    CHECK_THROWS(store.wait({"k"}, milliseconds(1)));
    CHECK(open_descriptors(file.path()) == 1);
    if (open_descriptors("anon_inode:inotify") == 0) std::puts(kNoWatch);
}

}  // namespace ddprun
