#include "rendezvous/system/small_file.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "rendezvous/base/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) { return read_small_file(path, 1 << 20).value(); }

std::size_t entries_in(const fs::path& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

int code_of_child(pid_t child) {
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

TEST_CASE("a file is replaced as a whole, and a new one is for its owner alone") {
    TemporaryFolder folder;
    const fs::path path = folder.path() / "new";
    const mode_t umask = ::umask(0);
    CHECK_FALSE(replace_file(path, "first"));
    ::umask(umask);
    CHECK(content(path) == "first");
    CHECK(fs::status(path).permissions() == fs::perms(0600));

    const int old = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    CHECK_FALSE(replace_file(path, "second, longer"));
    char bytes[16] = {};
    CHECK(::read(old, bytes, sizeof bytes) == 5);  // who has it open keeps what was there
    ::close(old);
    CHECK(content(path) == "second, longer");
    CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("a file of ours keeps its permissions") {
    TemporaryFolder folder;
    const fs::path path = folder.file("old", "old");
    for (const mode_t mode : {0644, 0640, 0600, 0664}) {
        REQUIRE(::chmod(path.c_str(), mode) == 0);
        CHECK_FALSE(replace_file(path, "new"));
        CHECK(fs::status(path).permissions() == fs::perms(mode));
    }
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

TEST_CASE("a link that leads to nothing yet is followed, too") {
    TemporaryFolder folder;
    fs::create_symlink("second", folder.path() / "first");
    fs::create_symlink(folder.path() / "target", folder.path() / "second");
    CHECK_FALSE(try_replace(folder.path() / "first"));
    CHECK_FALSE(replace_file(folder.path() / "first", "new"));
    CHECK(fs::is_symlink(folder.path() / "second"));
    CHECK(content(folder.path() / "target") == "new");
    fs::create_symlink("circle", folder.path() / "circle");
    CHECK(try_replace(folder.path() / "circle").value() == ELOOP);
}

TEST_CASE("our own stdout keeps what is in it") {
    TemporaryFolder folder;
    const fs::path path = folder.file("output", "before\n");
    const int saved = ::dup(STDOUT_FILENO);
    const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    ::dup2(file, STDOUT_FILENO);
    const auto tried = try_replace("/dev/stdout");
    const auto by_link = replace_file("/dev/stdout", "one\n");
    const auto by_name = replace_file(path, "two\n");
    ::dup2(saved, STDOUT_FILENO);
    ::close(saved);
    ::close(file);
    CHECK_FALSE(tried);
    CHECK_FALSE(by_link);
    CHECK_FALSE(by_name);
    CHECK(content(path) == "before\none\ntwo\n");
}

TEST_CASE("our own stdout is written to as it is, also one that nobody can open") {
    int ends[2];
    SECTION("a socket") { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
    SECTION("a pipe") {
        REQUIRE(::pipe(ends) == 0);
        REQUIRE(::fchmod(ends[1], 0) == 0);
    }
    const pid_t child = ::fork();
    if (child == 0) {
        // Not even the owner may open it again then.
        const bool somebody = ::geteuid() != 0 || ::setresuid(kNobody, kNobody, kNobody) == 0;
        const bool written = ::dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO && !try_replace("/dev/stdout") &&
                             !replace_file("/dev/stdout", "to stdout");
        ::_exit(somebody && written ? 0 : 1);
    }
    CHECK(code_of_child(child) == 0);
    ::close(ends[1]);
    char got[32] = {};
    CHECK(::read(ends[0], got, sizeof got) == 9);
    CHECK(std::string(got) == "to stdout");
    ::close(ends[0]);
}

TEST_CASE("a full pipe is waited for while its reader lives") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const std::string path = "/proc/self/fd/" + std::to_string(ends[1]);
    const std::string large(300'000, 'x');
    std::string got;
    std::thread reader([&] {
        char bytes[4096];
        for (ssize_t count = 0; (count = ::read(ends[0], bytes, sizeof bytes)) > 0;)
            got.append(bytes, static_cast<std::size_t>(count));
    });
    CHECK_FALSE(replace_file(path, large));
    ::close(ends[1]);
    reader.join();
    ::close(ends[0]);
    CHECK(got == large);
}

TEST_CASE("what would fail is known before, and trying leaves nothing and disturbs nobody") {
    TemporaryFolder folder;
    CHECK_FALSE(try_replace(folder.path() / "new"));
    CHECK_FALSE(try_replace("/dev/null"));
    CHECK_FALSE(try_replace(folder.file("old", "kept")));
    CHECK(content(folder.path() / "old") == "kept");
    CHECK(try_replace(folder.path()).value() == EISDIR);
    CHECK(try_replace(folder.path() / "no" / "folder").value() == ENOENT);
    CHECK(try_replace(folder.path() / "old" / "file").value() == ENOTDIR);
    const fs::path fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK_FALSE(try_replace(fifo));  // its reader may come yet, and must not see an end
    CHECK(entries_in(folder.path()) == 2);
}

TEST_CASE("permissions decide, the folder's for new files and the file's for those that are there") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to be somebody else");
        return;
    }
    TemporaryFolder folder;
    fs::permissions(folder.path(), fs::perms(0755));
    const fs::path open = folder.file("open", "old", 0666);
    const fs::path closed = folder.file("closed", "old", 0444);
    ::chmod(open.c_str(), 0666);
    const pid_t child = ::fork();
    if (child == 0) {
        const bool somebody =
            ::setresgid(kNobody, kNobody, kNobody) == 0 && ::setresuid(kNobody, kNobody, kNobody) == 0;
        const bool as_said =
            try_replace(folder.path() / "new").value() == EACCES && try_replace(closed).value() == EACCES &&
            replace_file(closed, "x").value() == EACCES && !try_replace(open) && !replace_file(open, "new");
        ::_exit(somebody && as_said ? 0 : 1);
    }
    CHECK(code_of_child(child) == 0);
    CHECK(content(open) == "new");
    CHECK(content(closed) == "old");
    CHECK(entries_in(folder.path()) == 2);
}

TEST_CASE("somebody else's link leads us nowhere: it is replaced, or nothing is written") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make a link of somebody else");
        return;
    }
    struct Row {
        mode_t folder_mode;
        uid_t folder_owner, link_owner, writer;
        bool follows, replaces;
    };
    constexpr uid_t kStranger = 65533;
    const Row rows[] = {
        {0755, 0, kStranger, 0, false, true},              // root's result, a stranger's link
        {01777, 0, kStranger, 0, false, true},             // likewise in /tmp
        {01777, 0, kStranger, kNobody, false, false},      // in /tmp, where it cannot be replaced
        {0777, kStranger, kNobody, kNobody, false, true},  // our own, kept in a stranger's folder
        {01777, 0, kNobody, kNobody, true, false},         // our own in /tmp
        {0755, kNobody, 0, kNobody, true, false},          // root's, at home
        {0755, 0, 0, 0, true, false},
    };
    for (const Row& row : rows) {
        INFO("folder " << row.folder_owner << ", link " << row.link_owner << ", writer " << row.writer);
        TemporaryFolder folder;
        TemporaryFolder victims;
        const fs::path victim = victims.file("victim", "kept");
        const fs::path link = folder.path() / "result.json";
        fs::create_symlink(victim, link);
        REQUIRE(::lchown(link.c_str(), row.link_owner, row.link_owner) == 0);
        REQUIRE(::chown(folder.path().c_str(), row.folder_owner, row.folder_owner) == 0);
        REQUIRE(::chmod(folder.path().c_str(), row.folder_mode) == 0);
        REQUIRE(::chown(victims.path().c_str(), row.writer, row.writer) == 0);
        REQUIRE(::chown(victim.c_str(), row.writer, row.writer) == 0);
        const pid_t child = ::fork();
        if (child == 0) {
            const bool is_writer = ::setresuid(row.writer, row.writer, row.writer) == 0;
            const bool tried = !try_replace(link);
            const bool written = !replace_file(link, "new");
            ::_exit(!is_writer ? 2 : tried != written ? 3 : written ? 0 : 1);
        }
        CHECK(code_of_child(child) == (row.follows || row.replaces ? 0 : 1));
        CHECK(content(victim) == (row.follows ? "new" : "kept"));
        CHECK(fs::is_symlink(link) != row.replaces);
        if (row.replaces) CHECK(content(link) == "new");
    }
}

TEST_CASE("what cannot be written is reported and leaves nothing behind") {
    TemporaryFolder folder;
    CHECK(replace_file(folder.path() / "no" / "folder", "x").value() == ENOENT);
    CHECK(replace_file("/dev/full", "x").value() == ENOSPC);
    const fs::path busy = folder.path() / "busy";
    fs::create_directory(busy);
    CHECK(replace_file(busy, "x").value() == EISDIR);
    CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("what another user has, links to, or has the folder of, is foreign") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    constexpr uid_t kOther = 61234;
    TemporaryFolder folder;
    const fs::path own = folder.file("own", ""), others = folder.file("others", ""),
                   link = folder.path() / "link";
    REQUIRE(::chown(others.c_str(), kOther, kOther) == 0);
    CHECK_FALSE(foreign_owner(own));
    CHECK_FALSE(foreign_owner(folder.path() / "nothing"));
    CHECK(foreign_owner(others) == kOther);
    CHECK_FALSE(foreign_owner(others, {kOther}));
    fs::create_symlink(own, link);
    CHECK_FALSE(foreign_owner(link));
    REQUIRE(::lchown(link.c_str(), kOther, kOther) == 0);
    CHECK(foreign_owner(link) == kOther);
    REQUIRE(::chown(folder.path().c_str(), kOther, kOther) == 0);
    CHECK(foreign_owner(own) == kOther);
    CHECK(foreign_owner(folder.path() / "nothing") == kOther);
    REQUIRE(::chown(folder.path().c_str(), 0, 0) == 0);
}

TEST_CASE("where everybody may make names, who has a part of the way may lead it elsewhere") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    constexpr uid_t kOther = 61234;
    TemporaryFolder folder;
    const fs::path own = folder.path() / "own", shared = folder.path() / "shared", theirs = shared / "theirs";
    fs::create_directories(own);
    fs::create_directories(theirs);
    folder.file("own/file", "");
    REQUIRE(::chmod(shared.c_str(), 01777) == 0);
    REQUIRE(::chown(theirs.c_str(), kOther, kOther) == 0);
    fs::create_directory_symlink(own, shared / "link");
    fs::create_directory_symlink(own, theirs / "link");
    fs::create_directory_symlink(theirs / "link", folder.path() / "link");
    for (const fs::path& name : {theirs / "link" / "file", theirs / "link" / ".." / "own" / "file",
                                 folder.path() / "link" / "file", theirs / "nothing"}) {
        INFO(name.string());
        CHECK(is_in_open_folder(name));
        CHECK(foreign_owner(name) == kOther);
        CHECK_FALSE(foreign_owner(name, {kOther}));
    }
    for (const fs::path& name :
         {own / "file", shared / "link" / "file", shared / "nothing", own / "nothing"}) {
        INFO(name.string());
        CHECK_FALSE(foreign_owner(name));
    }
    for (const fs::path& name : {theirs, shared, shared / "."}) CHECK(is_in_open_folder(name));
    // One that leads to itself has an end.
    fs::create_symlink("round", shared / "round");
    CHECK_FALSE(foreign_owner(shared / "round"));
}

TEST_CASE("whoever may make names in a folder on the way may have led it here") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    constexpr uid_t kOther = 61234;
    struct Row {
        mode_t mode;
        uid_t owner, group;
        bool is_open;
    };
    const Row rows[] = {
        {0755, 0, 0, false},     {0755, 0, kOther, false}, {0775, 0, 0, false},
        {0775, 0, kOther, true}, {02775, 0, kOther, true}, {01777, 0, 0, true},
        {0757, 0, 0, true},      {0755, kOther, 0, true},  {0700, kOther, kOther, true},
    };
    TemporaryFolder folder;
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());  // Names from here on have no way through /tmp.
    fs::create_directories("own");
    folder.file("own/file", "");
    fs::create_directories("way");
    fs::create_directory_symlink("../own", "way/theirs");
    fs::create_directory_symlink("../own", "way/ours");
    REQUIRE(::lchown("way/theirs", kOther, kOther) == 0);
    for (const Row& row : rows) {
        INFO("mode " << std::oct << row.mode << ", owner " << std::dec << row.owner << ':' << row.group);
        REQUIRE(::chown("way", row.owner, row.group) == 0);
        REQUIRE(::chmod("way", row.mode) == 0);
        CHECK(is_in_open_folder("way/theirs/file") == row.is_open);
        CHECK(foreign_owner("way/theirs/file").has_value() == row.is_open);
        CHECK_FALSE(foreign_owner("way/ours/file"));
    }
    fs::current_path(before);
}

TEST_CASE("an unknown user is root where a user namespace lacks him, but not where others may make names") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    constexpr uid_t kUser = 61234;
    constexpr uid_t kUnknown = 65534;
    TemporaryFolder folder;
    REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
    const fs::path roots = folder.file("roots", "");
    CHECK_FALSE(foreign_owner(roots));
    const fs::path nobodys = folder.file("nobodys", "");
    REQUIRE(::chown(nobodys.c_str(), kUnknown, kUnknown) == 0);
    CHECK(foreign_owner(nobodys) == kUnknown);
    const pid_t child = ::fork();
    if (child == 0) {
        const bool is_user = ::setresuid(kUser, kUser, kUser) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
        if (!is_user || ::unshare(CLONE_NEWUSER) != 0) ::_exit(2);
        std::ofstream("/proc/self/uid_map") << kUser << ' ' << kUser << " 1\n";
        if (::geteuid() != kUser) ::_exit(2);
        ::_exit(!foreign_owner("/proc/self/status") && !foreign_owner("/etc/passwd") &&
                        !is_in_open_folder("/etc/passwd") && foreign_owner(roots) == kUnknown
                    ? 0
                    : 1);
    }
    const int code = code_of_child(child);
    if (code == 2) WARN("skipped: no user namespaces here");
    CHECK((code == 0 || code == 2));
}

TEST_CASE("nothing is written into what another user has where all may make names") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    constexpr uid_t kStranger = 65533;
    struct Row {
        mode_t folder_mode;
        uid_t writer;
        bool is_pipe, may_write;
    };
    const Row rows[] = {
        {01777, kNobody, false, false}, {01777, kNobody, true, false}, {01777, 0, true, false},
        {01777, 0, false, true},        {0755, kNobody, false, true},  {0755, kNobody, true, true},
    };
    for (const Row& row : rows) {
        INFO("folder " << std::oct << row.folder_mode << std::dec << ", writer " << row.writer << ", pipe "
                       << row.is_pipe);
        TemporaryFolder folder;
        const fs::path path = folder.path() / "result.json";
        if (row.is_pipe) {
            REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
        } else {
            folder.file("result.json", "kept");
        }
        REQUIRE(::chmod(path.c_str(), 0666) == 0);
        REQUIRE(::chown(path.c_str(), kStranger, kStranger) == 0);
        REQUIRE(::chmod(folder.path().c_str(), row.folder_mode) == 0);
        const OwnedDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        const pid_t child = ::fork();
        if (child == 0) {
            if (::setresuid(row.writer, row.writer, row.writer) != 0) ::_exit(2);
            const bool tried = !try_replace(path);
            const bool written = !replace_file(path, "new");
            ::_exit(tried != written ? 3 : written ? 0 : 1);
        }
        CHECK(code_of_child(child) == (row.may_write ? 0 : 1));
        if (!row.is_pipe) CHECK(content(path) == (row.may_write ? "new" : "kept"));
    }
}

TEST_CASE("nothing is written behind another user's link, or into his file where all may make names") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to make another user's files");
        return;
    }
    constexpr uid_t kOther = 61234;
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND;
    TemporaryFolder folder;
    const fs::path own = folder.file("own", ""), others = folder.file("others", ""),
                   link = folder.path() / "link";
    const auto error_of = [&](const fs::path& path) {
        const auto file = open_own_file(path, kFlags, 0600);
        return file ? 0 : file.error().value();
    };
    REQUIRE(::chown(others.c_str(), kOther, kOther) == 0);
    fs::create_symlink(own, link);
    CHECK(error_of(own) == 0);
    CHECK(error_of(link) == 0);
    CHECK(error_of(others) == 0);  // in a folder of ours
    CHECK(error_of(folder.path() / "new") == 0);
    REQUIRE(::lchown(link.c_str(), kOther, kOther) == 0);
    CHECK(error_of(link) == EPERM);
    REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
    CHECK(error_of(own) == 0);
    // The kernel says the same, where it is told to.
    CHECK((error_of(others) == EPERM || error_of(others) == EACCES));
}

TEST_CASE("a text that was edited on another system is read as it is meant") {
    using namespace std::string_literals;
    CHECK(edited_text("a\nb") == "a\nb");
    CHECK(edited_text("") == "");
    CHECK(edited_text("\xef\xbb\xbf"s + "a\r\nb\r\n") == "a\nb\n");
    CHECK(edited_text("a\rb\r") == "a\nb\n");
    CHECK(edited_text("a\xc2\xa0"s + "b") == "a b");
    CHECK(edited_text("\xff\xfe"s + "a\0\r\0\n\0"s + "\xac\x20"s + "b\0"s) == "a\n?b");
    CHECK(edited_text("\xfe\xff"s + "\0a\0\n"s) == "a\n");
    CHECK(edited_text("\xff\xfe"s + "a"s) == "");
}

}  // namespace ddprun
