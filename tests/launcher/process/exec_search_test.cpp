#include "launcher/process/child_exec.hpp"

#include <filesystem>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using Paths = std::vector<std::string>;

TEST_CASE("a name with a slash is taken as it is") {
    for (const char* name : {"/bin/true", "./a", "a/b", "../x", "a/"}) {
        CHECK(exec_candidates(name, "/bin:/usr/bin") == Paths{name});
    }
}

TEST_CASE("a bare name is looked for in every directory of PATH, in order") {
    CHECK(exec_candidates("t", "/x:/y/z") == Paths{"/x/t", "/y/z/t"});
    CHECK(exec_candidates("t", "rel") == Paths{"rel/t"});
}

TEST_CASE("an empty directory in PATH is the current one") {
    CHECK(exec_candidates("t", "") == Paths{"./t"});
    CHECK(exec_candidates("t", ":/x") == Paths{"./t", "/x/t"});
    CHECK(exec_candidates("t", "/x:") == Paths{"/x/t", "./t"});
    CHECK(exec_candidates("t", "/x::/y") == Paths{"/x/t", "./t", "/y/t"});
}

TEST_CASE("without PATH the system's default is searched") {
    CHECK(exec_candidates("t", std::nullopt) == Paths{"/bin/t", "/usr/bin/t"});
}

TEST_CASE("an empty name is nowhere") { CHECK(exec_candidates("", "/bin").empty()); }

TEST_CASE("for many workers it is looked once which candidates are there, and the others stay candidates") {
    TemporaryFolder folder;
    const std::string here = folder.path() / "here";
    const std::string there = folder.path() / "there";
    const std::string path = "/nowhere:" + here + ":" + there;
    std::filesystem::create_directory(here);
    std::filesystem::create_directory(there);
    folder.file("there/t", "");
    ExecSearch search;
    const Paths found{there + "/t", "/nowhere/t", here + "/t"};
    CHECK(search.candidates("t", path) == found);
    folder.file("here/t", "");
    CHECK(search.candidates("t", path) == found);
    // Another name, or another PATH, is looked for anew.
    CHECK(search.candidates("./t", path) == Paths{"./t"});
    CHECK(search.candidates("t", path) == Paths{here + "/t", there + "/t", "/nowhere/t"});
    CHECK(search.candidates("t", there) == Paths{there + "/t"});
    CHECK(search.candidates("", path).empty());
}

}  // namespace ddprun
