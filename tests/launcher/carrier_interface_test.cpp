#include "launcher/carrier_interface.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("the interface that carries the rendezvous is the one with its address") {
    const std::vector<LocalAddress> own = {{"lo", "127.0.0.1", true},
                                           {"docker0", "172.17.0.1", false},
                                           {"eth0", "10.78.0.1", false},
                                           {"eth0", "fd00:78::1", false}};
    CHECK(carrier_interface("10.78.0.1", own) == "eth0");
    CHECK(carrier_interface("fd00:78::1", own) == "eth0");
    CHECK_FALSE(carrier_interface("127.0.0.1", own));
    CHECK_FALSE(carrier_interface("10.78.0.2", own));
    CHECK_FALSE(carrier_interface("", own));
}

TEST_CASE("what the user has chosen stays") {
    Environment environment{{"NCCL_SOCKET_IFNAME", "ib"}};
    CHECK(name_interface(environment, "eth0") ==
          std::vector<std::string>{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"});
    CHECK(environment == Environment{{"GLOO_SOCKET_IFNAME", "eth0"},
                                     {"NCCL_SOCKET_IFNAME", "ib"},
                                     {"TP_SOCKET_IFNAME", "eth0"}});
    Environment empty;
    name_interface(empty, "eth1");
    CHECK(empty.at("NCCL_SOCKET_IFNAME") == "=eth1");  // not eth10
}

}  // namespace ddprun
