#include "launcher/jobs/job_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"
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

TEST_CASE("jobs are in the user's runtime folder, if that is the user's") {
    TemporaryFolder folder, shared;
    const std::string own = folder.path().string();
    const auto found = [&shared](const std::string& runtime) {
        return find_jobs_folder(place_of(shared, {{"XDG_RUNTIME_DIR", runtime}}));
    };
    CHECK(found(own) == folder.path() / "ddprun");
    CHECK(find_jobs_folder(place_of(shared)) == usual(shared));
    CHECK(found("") == usual(shared));
    CHECK(found("relative") == usual(shared));
    CHECK(found(own + "/missing") == usual(shared));
    CHECK(found(folder.file("file", "")) == usual(shared));
    if (take(folder.path() / "another's")) CHECK(found(own + "/another's") == usual(shared));
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

TEST_CASE("where somebody else has taken the name, jobs are in another folder that is found again") {
    TemporaryFolder folder, home;
    const JobsPlace place = place_of(folder, {{"HOME", home.path().string()}});
    const JobsPlace homeless = place_of(folder);
    if (!take(usual(folder))) return;
    CHECK(find_jobs_folder(place).empty());
    CHECK_THAT(refusal_of(homeless), Catch::Contains("another user's") && Catch::Contains("HOME"));

    const fs::path jobs = make_jobs_folder(place);
    CHECK_THAT(jobs.string(), Catch::StartsWith(usual(folder).string() + "-"));
    CHECK(is_private_folder(jobs));
    CHECK(find_jobs_folder(place) == jobs);
    CHECK(make_jobs_folder(place) == jobs);
    CHECK(find_jobs_folder(homeless).empty());
    CHECK(find_jobs_folder(place_of(folder, {{"XDG_CONFIG_HOME", home.path() / ".config"}})) == jobs);

    // Whoever has the name gives it back, or the machine is started anew.
    fs::remove(usual(folder));
    CHECK(find_jobs_folder(place) == jobs);
    fs::remove(jobs);
    CHECK(find_jobs_folder(place) == usual(folder));
    REQUIRE(take(usual(folder)));
    CHECK(find_jobs_folder(place).empty());
    CHECK(make_jobs_folder(place) != jobs);
}

TEST_CASE("nothing that another user may have written says where the jobs are") {
    TemporaryFolder folder, home;
    const JobsPlace place = place_of(folder, {{"HOME", home.path().string()}});
    if (!take(usual(folder))) return;
    const fs::path jobs = make_jobs_folder(place);
    const fs::path config = home.path() / ".config" / "ddprun";
    const fs::path pointer = config / ("jobs-folder-" + host_name());
    const auto mode = [](const fs::path& path, mode_t bits) { REQUIRE(::chmod(path.c_str(), bits) == 0); };
    const auto owner = [](const fs::path& path, uid_t uid) { REQUIRE(::chown(path.c_str(), uid, uid) == 0); };
    REQUIRE(find_jobs_folder(place) == jobs);

    for (const auto& [path, open, closed] :
         {std::tuple(pointer, 0620, 0600), std::tuple(config, 0770, 0700), std::tuple(jobs, 0750, 0700)}) {
        INFO(path);
        mode(path, open);
        CHECK(find_jobs_folder(place).empty());
        mode(path, closed);
        owner(path, kNobody);
        CHECK(find_jobs_folder(place).empty());
        owner(path, 0);
        CHECK(find_jobs_folder(place) == jobs);
    }
    for (const std::string& text :
         {jobs.string(), jobs.string() + "/no\n", std::string("\n"), std::string()}) {
        std::ofstream(pointer) << text;
        CHECK(find_jobs_folder(place).empty());
    }
    // A folder that others can write to is not written to.
    mode(config, 0777);
    CHECK_THAT(refusal_of(place),
               Catch::Contains("cannot be written to") && Catch::Contains("XDG_RUNTIME_DIR"));
    mode(config, 0700);
    CHECK(find_jobs_folder(place).empty());
    CHECK(is_private_folder(make_jobs_folder(place)));
}

}  // namespace ddprun
