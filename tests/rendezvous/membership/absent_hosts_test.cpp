#include "rendezvous/membership/seating.hpp"

#include <limits>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("the hosts of a list that have no node, where that is certain") {
    using Hosts = std::vector<std::string>;
    const Hosts hosts = {"c", "a", "b"};
    CHECK(absent_hosts(hosts, {{1, 3}}, 2) == Hosts{"c", "b"});
    CHECK(absent_hosts(hosts, {{1, 3}, {0, 3}}, 1) == Hosts{"b"});
    CHECK(absent_hosts(hosts, {{1, 3}, {0, 3}, {2, 3}}, 0).empty());
    CHECK(absent_hosts(hosts, {}, 3) == hosts);
    // Two agents of one host, and one of a host that is in no list.
    CHECK(absent_hosts(hosts, {{1, 3}, {1, 3}}, 3) == Hosts{"c", "b"});
    CHECK(absent_hosts(hosts, {{-1, 3}, {2, 3}}, 2) == Hosts{"c", "a"});
    // More than may come: not all of them will.
    CHECK(absent_hosts(hosts, {{1, 3}}, 1).empty());
    // Another list, and none.
    CHECK(absent_hosts(hosts, {{1, 3}, {0, 2}}, 2).empty());
    CHECK(absent_hosts(hosts, {{1, 3}, {-1, 0}}, 2).empty());
    CHECK(absent_hosts({}, {}, 3).empty());
    for (const int wild : {3, -7, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
        CHECK(absent_hosts(hosts, {{wild, 3}}, 3) == hosts);
        CHECK(absent_hosts(hosts, {{0, wild == 3 ? 4 : wild}}, 3).empty());
    }
}

}  // namespace ddprun
