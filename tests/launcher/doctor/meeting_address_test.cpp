#include "launcher/doctor/surroundings.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("a node is called by the address that its workers would have") {
    const std::vector<LocalAddress> own{{"lo", "127.0.0.1", true},
                                        {"eth0", "10.0.0.7", false},
                                        {"ib0", "10.1.0.7", false},
                                        {"ib0", "10.1.0.8", false}};
    struct Case {
        Environment environment;
        std::string node_addr;
        std::string address;
    };
    const std::vector<Case> cases = {
        {{}, "10.1.0.7", "10.1.0.7"},
        {{}, "", "10.0.0.7"},
        {{}, "127.0.0.1", "127.0.0.1"},
        {{{"DDPRUN_NET", "10.1.0.0/16"}}, "10.0.0.7", "10.1.0.7"},
        {{{"DDPRUN_NET", "10.1.0.0/16"}}, "10.1.0.8", "10.1.0.8"},
        {{{"DDPRUN_NET", "192.168.0.0/16,10.1.0.0/16"}}, "", "10.1.0.7"},
        {{{"DDPRUN_NET", "192.168.0.0/16"}}, "10.0.0.7", "10.0.0.7"},
        {{{"DDPRUN_NET", "no network"}}, "10.0.0.7", "10.0.0.7"},
        {{{"GLOO_SOCKET_IFNAME", "ib0"}}, "10.0.0.7", "10.1.0.7"},
        {{{"GLOO_SOCKET_IFNAME", "ib9"}}, "10.0.0.7", "10.0.0.7"},
        {{{"GLOO_SOCKET_IFNAME", "ib0"}, {"DDPRUN_NET", "10.0.0.0/16"}}, "", "10.0.0.7"},
    };
    for (const Case& one : cases) {
        INFO(one.address << " beside " << one.node_addr);
        CHECK(meeting_address(one.environment, one.node_addr, own) == one.address);
    }
    CHECK(meeting_address({}, "", {}) == "127.0.0.1");
}

}  // namespace ddprun
