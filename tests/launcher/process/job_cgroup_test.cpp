#include "launcher/process/job_cgroup.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string file_content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t subfolders(const fs::path& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("the folder of a process's cgroup, from /proc") {
    const char* unified =
        "24 1 0:5 / /proc rw - proc proc rw\n"
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    CHECK(cgroup_folder("0::/user.slice/a.scope\n", unified) ==
          fs::path("/sys/fs/cgroup/user.slice/a.scope"));
    CHECK(cgroup_folder("0::/\n", unified) == fs::path("/sys/fs/cgroup/"));
    const char* hybrid =
        "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "31 24 0:27 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw\n";
    CHECK(cgroup_folder("4:memory:/process_api\n0::/a\n", hybrid) == fs::path("/sys/fs/cgroup/uni fied/a"));
    // A container that sees only its own part, under the host's names.
    const char* part = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
    CHECK(cgroup_folder("0::/docker/abc/job\n", part) == fs::path("/sys/fs/cgroup/job"));
    CHECK(cgroup_folder("0::/docker/abc\n", part) == fs::path("/sys/fs/cgroup/"));
    CHECK_FALSE(cgroup_folder("0::/docker/abcd\n", part).has_value());
    CHECK_FALSE(cgroup_folder("0::/../other\n", unified).has_value());
    CHECK_FALSE(cgroup_folder("4:memory:/a\n", unified).has_value());
    CHECK_FALSE(
        cgroup_folder("0::/a\n", "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw\n").has_value());
    CHECK_FALSE(cgroup_folder("0::/a\n", "damaged - cgroup2 x\n").has_value());
    CHECK_FALSE(cgroup_folder("", "").has_value());
    TemporaryFolder proc;
    CHECK_FALSE(own_cgroup_folder(proc.path()).has_value());
    fs::create_directories(proc.path() / "self");
    proc.file("self/cgroup", "0::/a\n");
    proc.file("self/mountinfo", unified);
    CHECK(own_cgroup_folder(proc.path()) == fs::path("/sys/fs/cgroup/a"));
}

TEST_CASE("no cgroup is made in a folder that is none, or may not be written to") {
    TemporaryFolder folder;
    CHECK_FALSE(JobCgroup::make(folder.path()).has_value());
    CHECK_FALSE(JobCgroup::make(folder.path() / "missing").has_value());
    CHECK(subfolders(folder.path()) == 0);
}

TEST_CASE("a job's folders in a folder like the cgroup file system's") {
    TemporaryFolder parent;
    parent.file("cgroup.procs", "");
    auto job = JobCgroup::make(parent.path(), 2);
    REQUIRE(job.has_value());
    CHECK(job->path().parent_path() == parent.path());
    CHECK(job->path().filename().string().rfind("ddprun-" + std::to_string(::getpid()) + "-", 0) == 0);
    CHECK(subfolders(parent.path()) == 2);
    // Two jobs of one launcher are two.
    const auto other = JobCgroup::make(parent.path());
    REQUIRE(other.has_value());
    other->remove();
    CHECK(subfolders(parent.path()) == 2);

    for (int round = 0; round < 2; ++round) {
        const int fd = job->open_worker(11);
        REQUIRE(fd >= 0);
        CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        ::close(fd);
    }
    CHECK(job->worker_path(11) == job->path() / "worker-11");
    CHECK(fs::is_directory(job->worker_path(11)));

    job->make_ahead();
    const auto ino = [&] {
        struct stat folder {};
        REQUIRE(::stat(job->worker_path(1).c_str(), &folder) == 0);
        return folder.st_ino;
    };
    const auto ahead = ino();
    ::close(job->open_worker(1));
    CHECK(ino() == ahead);
    // One that was used has counted another worker's events: the next worker's is a new one.
    std::ofstream(job->worker_path(1) / "used") << "";
    ::close(job->open_worker(1));
    CHECK(fs::exists(job->worker_path(1) / "used"));  // in use: it stays
    fs::remove(job->worker_path(1) / "used");
    fs::permissions(job->worker_path(1), fs::perms::owner_read);
    ::close(job->open_worker(1));
    CHECK((fs::status(job->worker_path(1)).permissions() & fs::perms::owner_exec) == fs::perms::owner_exec);
    for (int made : {0, 1}) fs::remove(job->worker_path(made));

    job->kill();  // an old kernel has no such file, and none is made
    CHECK(subfolders(job->path()) == 1);
    std::ofstream(job->path() / "cgroup.kill") << "";
    job->kill();
    CHECK(file_content(job->path() / "cgroup.kill") == "1");
    fs::remove(job->path() / "cgroup.kill");

    job->remove();
    CHECK_FALSE(fs::exists(job->path()));
    job->remove();
    CHECK(job->open_worker(0) == -1);
}

TEST_CASE("in the real cgroup file system a whole subtree is killed in one stroke") {
    const auto own = own_cgroup_folder();
    auto job = own ? JobCgroup::make(*own) : std::nullopt;
    if (!job) {
        WARN("skipped: no cgroup v2 can be made below " << (own ? own->string() : "any folder"));
        return;
    }
    const int fd = job->open_worker(0);
    REQUIRE(fd >= 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    std::ofstream(job->worker_path(0) / "cgroup.procs") << child << std::flush;
    CHECK(file_content(job->worker_path(0) / "cgroup.procs") == std::to_string(child) + "\n");
    job->remove();  // in use: it stays
    CHECK(fs::exists(job->worker_path(0)));
    if (fs::exists(job->path() / "cgroup.kill")) {
        job->kill();
    } else {
        WARN("skipped: this kernel has no cgroup.kill");
        ::kill(child, SIGKILL);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    ::close(fd);
    job->remove();
    CHECK_FALSE(fs::exists(job->path()));
}

}  // namespace ddprun
