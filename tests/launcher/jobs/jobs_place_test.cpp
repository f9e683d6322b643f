#include "launcher/jobs/jobs_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "rendezvous/base/error.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

JobsPlace place_of(const TemporaryFolder& folder, Environment environment = {}) {
    return {.environment = std::move(environment), .uid = ::geteuid(), .shared = folder.path()};
}

fs::path usual(const TemporaryFolder& folder) {
    return folder.path() / ("ddprun-" + std::to_string(::geteuid()));
}

std::string refusal_of(const JobsPlace& place) {
    try {
        make_jobs_folder(place);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// What another user has where the jobs would be; nothing if this one cannot make it.
bool take(const fs::path& name) {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to give a folder to somebody else");
        return false;
    }
    fs::create_directory(name);
    REQUIRE(::chown(name.c_str(), kNobody, kNobody) == 0);
    return true;
}

}  // namespace

TEST_CASE("jobs are where every session of the user's finds them, or where the user says") {
    TemporaryFolder folder, shared;
    const std::string own = folder.path().string();
    // A session's folder goes with it, and cron, su and sudo have none.
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR", "XDG_CONFIG_HOME", "HOME"})
        CHECK(find_jobs_folder(place_of(shared, {{name, own}})) == usual(shared));
    CHECK(find_jobs_folder(place_of(shared)) == usual(shared));
    CHECK(find_jobs_folder(place_of(shared, {{kJobsVariable, ""}})) == usual(shared));
    CHECK(find_jobs_folder(place_of(shared, {{kJobsVariable, own}})) == folder.path() / "ddprun");
    CHECK(find_jobs_folder(place_of(shared, {{kJobsVariable, "relative"}})) ==
          fs::current_path() / "relative" / "ddprun");
    CHECK_THAT(refusal_of(place_of(shared, {{kJobsVariable, own + "/missing"}})),
               Catch::Contains("cannot make"));
}

TEST_CASE("the jobs folder is made for its owner alone, and another kind is refused") {
    TemporaryFolder folder;
    const JobsPlace place = place_of(folder);
    const fs::path jobs = usual(folder);
    CHECK_FALSE(is_private_folder(jobs));
    const mode_t umask = ::umask(0);
    CHECK(make_jobs_folder(place) == jobs);
    ::umask(umask);
    CHECK(fs::status(jobs).permissions() == fs::perms::owner_all);
    CHECK(is_private_folder(jobs));
    CHECK(refusal_of(place).empty());

    for (int mode : {0710, 0701, 0770, 0777, 0740}) {
        ::chmod(jobs.c_str(), static_cast<mode_t>(mode));
        CHECK_THAT(refusal_of(place), Catch::Contains("permissions") && Catch::Contains(jobs.string()));
        CHECK_THROWS_AS(is_private_folder(jobs), Error);
    }
    fs::remove(jobs);
    fs::create_directory_symlink(folder.path(), jobs);
    CHECK_THAT(refusal_of(place), Catch::Contains("symbolic link"));
    fs::remove(jobs);
    std::ofstream(jobs) << "a file";
    CHECK_THAT(refusal_of(place), Catch::Contains("no folder"));
    CHECK_THAT(refusal_of({.uid = ::geteuid(), .shared = folder.path() / "no" / "folder"}),
               Catch::Contains("cannot make"));
}

TEST_CASE("where others can rename the jobs folder, it is none") {
    TemporaryFolder folder;
    const JobsPlace place = place_of(folder);
    const auto is_refused_under = [&](mode_t mode, gid_t group) {
        REQUIRE(::chown(folder.path().c_str(), ::geteuid(), group) == 0);
        REQUIRE(::chmod(folder.path().c_str(), mode) == 0);
        const std::string refusal = refusal_of(place);
        CHECK((refusal.empty() || refusal.find("others can put another one there") != std::string::npos));
        return !refusal.empty();
    };
    CHECK_FALSE(is_refused_under(01777, ::getegid()));
    CHECK(is_refused_under(0777, ::getegid()));
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to give a folder to a group");
        return;
    }
    CHECK_FALSE(is_refused_under(0775, 0));
    CHECK(is_refused_under(0775, kNobody));
    CHECK_FALSE(is_refused_under(0755, kNobody));
}

TEST_CASE("no folder above the jobs folder may be one that others change") {
    if (::geteuid() != 0) {
        WARN("skipped: needs root, to give folders to others");
        return;
    }
    TemporaryFolder folder;
    const fs::path above = folder.path() / "above", own = above / "own";
    fs::create_directories(own);
    const JobsPlace place{.environment = {{kJobsVariable, own.string()}}, .uid = ::geteuid()};
    const auto is_refused_under = [&](uid_t owner, gid_t group, mode_t mode) {
        REQUIRE(::chown(above.c_str(), owner, group) == 0);
        REQUIRE(::chmod(above.c_str(), mode) == 0);
        return refusal_of(place).find(above.string() + "'") != std::string::npos;
    };
    CHECK_FALSE(is_refused_under(::geteuid(), kNobody, 0755));
    CHECK_FALSE(is_refused_under(::geteuid(), kNobody, 03775));
    CHECK(is_refused_under(::geteuid(), kNobody, 02775));
    CHECK(is_refused_under(kNobody, kNobody, 0755));
    CHECK(is_refused_under(kNobody, kNobody, 01777));
    // A link on the way is its folder's, not its target's.
    REQUIRE_FALSE(is_refused_under(::geteuid(), 0, 0755));
    const fs::path linked = folder.path() / "linked";
    fs::create_directory(linked);
    fs::create_directory_symlink(own, linked / "way");
    REQUIRE(::chown(linked.c_str(), kNobody, kNobody) == 0);
    CHECK_THAT(refusal_of({.environment = {{kJobsVariable, (linked / "way").string()}}, .uid = ::geteuid()}),
               Catch::Contains(linked.string()));
}

TEST_CASE("where somebody else has taken the name, jobs are in another folder that is found again") {
    TemporaryFolder folder;
    const JobsPlace place = place_of(folder);
    if (!take(usual(folder))) return;
    CHECK(find_jobs_folder(place).empty());
    const fs::path jobs = make_jobs_folder(place);
    CHECK_THAT(jobs.string(), Catch::StartsWith(usual(folder).string() + "-"));
    CHECK(is_private_folder(jobs));
    CHECK(make_jobs_folder(place) == jobs);
    CHECK(find_jobs_folder(place) == jobs);

    // Whoever has the name gives it back, or the machine is started anew.
    fs::remove(usual(folder));
    CHECK(find_jobs_folder(place) == jobs);
    fs::remove(jobs);
    CHECK(find_jobs_folder(place) == usual(folder));
    REQUIRE(take(usual(folder)));
    CHECK(find_jobs_folder(place).empty());
}

TEST_CASE("nothing that another user may have made says where the jobs are") {
    TemporaryFolder folder;
    const JobsPlace place = place_of(folder);
    if (!take(usual(folder))) return;
    const std::string begin = usual(folder).string() + "-";
    REQUIRE(take(begin + "000000"));
    fs::create_directory(begin + "open");
    REQUIRE(::chmod((begin + "open").c_str(), 0750) == 0);
    fs::create_directory_symlink(folder.path(), begin + "link");
    std::ofstream(begin + "file") << "a file";
    CHECK(find_jobs_folder(place).empty());
    const fs::path jobs = make_jobs_folder(place);
    CHECK(find_jobs_folder(place) == jobs);
    REQUIRE(::chown(jobs.c_str(), kNobody, kNobody) == 0);
    CHECK(find_jobs_folder(place).empty());
}

}  // namespace ddprun
