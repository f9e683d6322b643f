#include "rendezvous/net/local_addresses.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("a network contains the addresses that share its prefix, and no others") {
    struct Case {
        const char* network;
        const char* address;
        bool contained;
    };
    const Case cases[] = {
        {"10.0.0.0/8", "10.255.1.2", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.77.0.9/24", "10.77.0.1", true},
        {"10.77.0.0/31", "10.77.0.1", true},
        {"10.77.0.0/31", "10.77.0.2", false},
        {"192.168.1.7", "192.168.1.7", true},
        {"192.168.1.7", "192.168.1.6", false},
        {"0.0.0.0/0", "1.2.3.4", true},
        {"0.0.0.0/0", "::1", false},
        {"fd00::/8", "fdff::1", true},
        {"fd00::/8", "fe00::1", false},
        {"::/0", "1.2.3.4", false},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"10.0.0.0/8", "node0", false},
        {"10.0.0.0/8", "", false},
    };
    for (const Case& one : cases) {
        INFO(one.network << " and " << one.address);
        const auto network = parse_network(one.network);
        REQUIRE(network);
        REQUIRE(network->contains(one.address) == one.contained);
    }
}

TEST_CASE("what is no network is refused") {
    for (const char* text : {"", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "::/129", "eth0",
                             "10.0.0.0/8x", "/8", "10.0.0.0/8/8", " 10.0.0.0/8"}) {
        INFO(text);
        REQUIRE_FALSE(parse_network(text));
    }
}

TEST_CASE("a list of networks keeps its order, and is all right or nothing") {
    const auto networks = parse_networks("10.0.0.0/8,fd00::/8");
    REQUIRE(networks);
    REQUIRE(networks->size() == 2);
    REQUIRE((*networks)[1].contains("fd00::1"));
    for (const char* text : {"", ",", "10.0.0.0/8,", ",10.0.0.0/8", "10.0.0.0/8 fd00::/8"}) {
        INFO(text);
        REQUIRE_FALSE(parse_networks(text));
    }
}

}  // namespace ddprun
