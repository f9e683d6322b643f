#include "rendezvous/net/endpoint.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("endpoints in every accepted form") {
    struct Case {
        const char* text;
        Endpoint expected;
    };
    const Case cases[] = {
        {"gpu01", {"gpu01", 29500}},
        {"gpu01:1", {"gpu01", 1}},
        {"node-0.job_1.svc:65535", {"node-0.job_1.svc", 65535}},
        {"10.0.0.1", {"10.0.0.1", 29500}},
        {"10.0.0.1:0", {"10.0.0.1", 0}},
        {"::1", {"::1", 29500}},
        {"fe80::1%eth0", {"fe80::1%eth0", 29500}},
        {"[::1]", {"::1", 29500}},
        {"[2001:db8::2]:400", {"2001:db8::2", 400}},
    };
    for (const auto& [text, expected] : cases) {
        INFO(text);
        auto endpoint = parse_endpoint(text, 29500);
        REQUIRE(endpoint);
        CHECK(*endpoint == expected);
    }
}

TEST_CASE("texts that are no endpoint") {
    for (const char* text :
         {"",    ":",     ":1",        "host:",  "host:65536",     "host:-1",  "host:1x", "host:000001",
          "a b", "a/b:1", "[::1",      "[::1]x", "[::1]:",         "[host]:1", "1:2:3",   "-h",
          ".h",  "a..b",  "300.1.1.1", "10.0.0", "10.0.0.1:99999", "h\n",      "[]:1"}) {
        INFO(text);
        CHECK_FALSE(parse_endpoint(text, 1));
    }
    // A zone is a name, and nothing ends at a NUL.
    for (const char* zone : {"", "a b", "\x1b[2J", "e\n", "x]"})
        CHECK_FALSE(parse_endpoint("fe80::1%" + std::string(zone), 1));
    CHECK_FALSE(parse_endpoint(std::string("::1\0x", 5), 1));
    CHECK_FALSE(parse_endpoint(std::string("fe80::1%a\0", 10), 1));
    CHECK_FALSE(parse_endpoint(std::string(254, 'a'), 1));
    CHECK(parse_endpoint(std::string(253, 'a'), 1));
}

TEST_CASE("endpoints print so that they can be read again") {
    CHECK(to_string(Endpoint{"gpu01", 1}) == "gpu01:1");
    CHECK(to_string(Endpoint{"::1", 1}) == "[::1]:1");
    for (const char* host : {"gpu01", "10.0.0.1", "2001:db8::2"}) {
        CHECK(parse_endpoint(to_string(Endpoint{host, 7}), 1) == Endpoint{host, 7});
    }
}

}  // namespace ddprun
