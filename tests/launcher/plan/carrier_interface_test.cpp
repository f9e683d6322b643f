#include "launcher/plan/own_address.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::vector<LocalAddress> kOwn = {{"lo", "127.0.0.1", true},
                                        {"docker0", "172.17.0.1", false},
                                        {"eth0", "10.78.0.1", false},
                                        {"eth0", "fd00:78::1", false}};

}  // namespace

TEST_CASE("the interface that carries the rendezvous is the one with its address") {
    CHECK(carrier_interface("10.78.0.1", kOwn) == "eth0");
    CHECK(carrier_interface("fd00:78::1", kOwn) == "eth0");
    CHECK_FALSE(carrier_interface("127.0.0.1", kOwn));
    CHECK_FALSE(carrier_interface("10.78.0.2", kOwn));
    CHECK_FALSE(carrier_interface("", kOwn));
}

TEST_CASE("a node without others is at loopback") {
    CHECK(loopback_of("10.78.0.1") == "127.0.0.1");
    CHECK(loopback_of("node-a") == "127.0.0.1");
    CHECK(loopback_of("::1") == "::1");
}

TEST_CASE("what the user has chosen stays") {
    Environment environment{{"NCCL_SOCKET_IFNAME", "ib"}};
    CHECK(name_interface(environment, "eth0") ==
          std::vector<std::string>{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"});
    CHECK(environment == Environment{{"GLOO_SOCKET_IFNAME", "eth0"},
                                     {"NCCL_SOCKET_IFNAME", "ib"},
                                     {"TP_SOCKET_IFNAME", "eth0"}});
    CHECK(name_interface(environment, "eth0").empty());
    Environment empty;
    CHECK(name_interface(empty, "").empty());
    CHECK(empty.empty());
    name_interface(empty, "docker0");
    CHECK(empty.at("NCCL_SOCKET_IFNAME") == "=docker0");  // not docker01
}

TEST_CASE("the carrier is what the user says, else what reaches the coordinator, or is reached as that") {
    const OwnAddress said{"10.78.0.1", "eth0", "--net 10.78.0.0/16"};
    const struct {
        CarrierFacts facts;
        std::string address, interface, why;
    } rows[] = {
        {{.said = {},
          .host = "gpu00",
          .local = "10.78.0.1",
          .seen = "10.78.0.1",
          .reached_at = "",
          .own = kOwn},
         "10.78.0.1",
         "eth0",
         "carries the way to gpu00"},
        {{.said = {},
          .host = "gpu00",
          .local = "127.0.0.1",
          .seen = "127.0.0.1",
          .reached_at = "",
          .own = kOwn},
         "127.0.0.1",
         "",
         "carries the way to gpu00"},
        {{.said = {}, .host = "", .local = "", .seen = "", .reached_at = "fd00:78::1", .own = kOwn},
         "fd00:78::1",
         "eth0",
         "has fd00:78::1, by which other nodes reach this one"},
        {{.said = said,
          .host = "gpu00",
          .local = "172.17.0.1",
          .seen = "172.17.0.1",
          .reached_at = "",
          .own = kOwn},
         "10.78.0.1",
         "eth0",
         "has 10.78.0.1, by --net 10.78.0.0/16"},
        {{.said = {}, .host = "", .local = "", .seen = "", .reached_at = "", .own = kOwn},
         "",
         "",
         "has , by which other nodes reach this one"},
    };
    for (const auto& row : rows) {
        const Carrier carrier = find_carrier(row.facts);
        INFO(row.why);
        CHECK(carrier.address == row.address);
        CHECK(carrier.interface == row.interface);
        CHECK(carrier.why == row.why);
        CHECK(carrier.remark.empty());
    }
    const Carrier carrier = find_carrier(rows[0].facts);
    CHECK(interface_text({"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}, carrier) ==
          "GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME=eth0, which carries the way to gpu00");
    CHECK(interface_text({}, carrier).empty());
}

TEST_CASE("a node that others see at another address hears of both, and of the flag that decides") {
    CarrierFacts guest{.said = {},
                       .host = "gpu00",
                       .local = "172.17.0.1",
                       .seen = "10.0.0.7",
                       .reached_at = "",
                       .own = kOwn};
    CHECK(find_carrier(guest).remark ==
          "this node is 172.17.0.1 itself, but 10.0.0.7 to the coordinator (translated on the way?); workers "
          "use 172.17.0.1, by "
          "default; --local-addr ADDRESS decides");
    CHECK(find_carrier(guest).interface == "docker0");
    guest.said = {"10.78.0.1", "eth0", "--local-addr gpu01"};
    CHECK_THAT(find_carrier(guest).remark, Catch::EndsWith("workers use 10.78.0.1, by --local-addr gpu01"));
    guest.local = "fe80::1%eth0";
    guest.seen = "fe80::1";
    CHECK(find_carrier(guest).remark.empty());
    guest.seen = "";
    CHECK(find_carrier(guest).remark.empty());
    CarrierFacts host{.said = {}, .host = "", .local = "", .seen = "", .reached_at = "10.0.0.7", .own = kOwn};
    CHECK(find_carrier(host).address == "10.0.0.7");
    CHECK(find_carrier(host).interface.empty());
    CHECK(find_carrier(host).remark ==
          "other nodes reach this one at 10.0.0.7, which is none of its own addresses (translated on the "
          "way?); workers choose an "
          "interface by themselves; --local-addr ADDRESS decides");
    host.said = {"10.78.0.1", "eth0", "--local-addr gpu01"};
    CHECK(find_carrier(host).address == "10.78.0.1");
    CHECK_THAT(find_carrier(host).remark, Catch::EndsWith("workers use 10.78.0.1, by --local-addr gpu01"));
}

}  // namespace ddprun
