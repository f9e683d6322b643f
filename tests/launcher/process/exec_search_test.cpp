#include "launcher/process/exec_search.hpp"

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

}  // namespace ddprun
