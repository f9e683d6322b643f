#include "launcher/plan/carrier_interface.hpp"

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
    CHECK(name_carrier_interface(environment, "10.78.0.1", kOwn) ==
          "workers are told to use eth0, since 10.78.0.1 carries the rendezvous: GLOO_SOCKET_IFNAME, "
          "TP_SOCKET_IFNAME");
    CHECK(environment == Environment{{"GLOO_SOCKET_IFNAME", "eth0"},
                                     {"NCCL_SOCKET_IFNAME", "ib"},
                                     {"TP_SOCKET_IFNAME", "eth0"}});
    CHECK(name_carrier_interface(environment, "10.78.0.1", kOwn).empty());
    Environment empty;
    CHECK(name_carrier_interface(empty, "127.0.0.1", kOwn).empty());
    CHECK(empty.empty());
    name_carrier_interface(empty, "172.17.0.1", kOwn);
    CHECK(empty.at("NCCL_SOCKET_IFNAME") == "=docker0");  // not docker01
}

}  // namespace ddprun
