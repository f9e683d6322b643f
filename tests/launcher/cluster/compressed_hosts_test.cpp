
#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <set>

#include "launcher/cluster/host_list.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("names of several hosts in few words") {
    using Hosts = std::vector<std::string>;
    const std::vector<std::pair<Hosts, std::string>> table = {
        {{}, ""},
        {{"gpu01"}, "gpu01"},
        {{"gpu01", "gpu02", "gpu03", "gpu07"}, "gpu[01-03,07]"},
        {{"gpu9", "gpu10", "gpu11"}, "gpu[9,10-11]"},
        {{"gpu02", "login", "gpu01"}, "gpu[01-02],login"},
        {{"r1n1.site", "r1n2.site", "r2n1.site"}, "r1n[1-2].site,r2n1.site"},
        {{"node.eu1", "node.eu2"}, "node.eu1,node.eu2"},
        {{"vm#0", "vm#1", "vm#2"}, "vm#[0-2]"},
        {{"a1", "a1"}, "a1"},
        {{"x[1]", "99999999999999999999"}, "x[1],99999999999999999999"},
    };
    for (const auto& [hosts, text] : table) CHECK(compressed_hosts(hosts) == text);
}

TEST_CASE("what is compressed expands to the same hosts") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::minstd_rand random(seed);
    for (int turn = 0; turn < 200; ++turn) {
        std::set<std::string> hosts;
        for (unsigned i = random() % 40; i > 0; --i) {
            const auto number = random() % 120;
            switch (random() % 3) {
                case 0: hosts.insert(fmt::format("gpu{:03}", number)); break;
                case 1: hosts.insert(fmt::format("n{}.site", number)); break;
                default: hosts.insert(std::string(1 + number % 3, 'h')); break;
            }
        }
        const std::vector<std::string> given(hosts.begin(), hosts.end());
        const auto expanded = expand_host_list(compressed_hosts(given));
        if (given.empty()) continue;
        REQUIRE(std::holds_alternative<std::vector<std::string>>(expanded));
        const auto& list = std::get<std::vector<std::string>>(expanded);
        CHECK(std::set<std::string>(list.begin(), list.end()) == hosts);
        CHECK(list.size() == hosts.size());
    }
}

TEST_CASE("nodes of one host are told apart by their ranks") {
    CHECK(node_labels({"a", "b"}) == std::vector<std::string>{"a", "b"});
    CHECK(node_labels({"a", "b", "a", ""}) == std::vector<std::string>{"a#0", "b", "a#2", "#3"});
}

}  // namespace ddprun
