// The environment's words about hosts and addresses, and how ranks are grouped by host.
#include "collectives/wire/host_settings.hpp"

#include "collectives/error.hpp"
#include "collectives/wire/membership.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

const std::vector<LocalAddress> kAddresses{
    {"lo", "127.0.0.1", true},     {"lo", "::1", true},        {"docker0", "172.17.0.1", false},
    {"eth0", "10.0.0.5", false},   {"eth0", "fd00::5", false}, {"eth01", "10.9.0.5", false},
    {"ib0", "192.168.7.5", false},
};

std::string refusal(const Environment& environment, bool choose = false) {
    try {
        const HostSettings settings = read_host_settings(environment);
        if (choose) choose_address(settings, kAddresses, "10.0.0.5");
    } catch (const CollectiveError& error) {
        REQUIRE(error.code() == CollectiveErrorCode::invalid_argument);
        return error.what();
    }
    return {};
}

std::string chosen(const Environment& environment, const std::string& usual = "10.0.0.5") {
    const HostSettings settings = read_host_settings(environment);
    REQUIRE(settings.chooses_address());
    return choose_address(settings, kAddresses, usual);
}

Membership on(const std::vector<std::string>& hosts, int rank) {
    Membership membership;
    membership.rank = rank;
    membership.members.resize(hosts.size());
    for (std::size_t i = 0; i < hosts.size(); ++i) membership.members[i].host = hosts[i];
    return membership;
}

}  // namespace

TEST_CASE("interfaces are chosen by prefix, by name, or by exclusion", "[host_settings]") {
    const auto by_name = [](const char* names) { return chosen({{"DDPRUN_SOCKET_IFNAME", names}}); };
    REQUIRE(by_name("eth") == "10.0.0.5");
    REQUIRE(by_name("=eth01") == "10.9.0.5");
    REQUIRE(by_name("=eth0") == "10.0.0.5");
    REQUIRE(by_name("ib,eth") == "192.168.7.5");
    REQUIRE(by_name("wlan,=x,eth01") == "10.9.0.5");
    REQUIRE(by_name("lo") == "127.0.0.1");
    REQUIRE(by_name("^docker") == "10.0.0.5");
    REQUIRE(by_name("^docker,eth") == "192.168.7.5");
    REQUIRE(by_name("^=eth0,docker0") == "10.9.0.5");
    REQUIRE(by_name("^docker,eth,ib") == "127.0.0.1");
    // Of the family that is used already.
    REQUIRE(chosen({{"DDPRUN_SOCKET_IFNAME", "eth"}}, "fd00::5") == "fd00::5");
}

TEST_CASE("networks are tried in the order given", "[host_settings]") {
    const auto by_net = [](const char* nets) { return chosen({{"DDPRUN_NET", nets}}); };
    REQUIRE(by_net("10.0.0.0/8") == "10.0.0.5");
    REQUIRE(by_net("192.168.0.0/16,10.0.0.0/8") == "192.168.7.5");
    REQUIRE(by_net("1.0.0.0/8,10.9.0.0/16") == "10.9.0.5");
    REQUIRE(by_net("fd00::/8") == "fd00::5");
    REQUIRE(chosen({{"DDPRUN_NET", "10.0.0.0/8"}, {"DDPRUN_SOCKET_IFNAME", "eth01"}}) == "10.9.0.5");
}

TEST_CASE("settings that fit no address name themselves and the addresses there are", "[host_settings]") {
    const std::string text = refusal({{"DDPRUN_NET", "1.0.0.0/8"}}, true);
    REQUIRE(text.find("DDPRUN_NET='1.0.0.0/8'") != std::string::npos);
    REQUIRE(text.find("192.168.7.5 (ib0)") != std::string::npos);
    REQUIRE(refusal({{"DDPRUN_SOCKET_IFNAME", "=eth"}}, true).find("DDPRUN_SOCKET_IFNAME='=eth'") !=
            std::string::npos);
    const std::string both = refusal({{"DDPRUN_NET", "10.0.0.0/8"}, {"DDPRUN_SOCKET_IFNAME", "ib"}}, true);
    REQUIRE(both.find("DDPRUN_SOCKET_IFNAME='ib' and DDPRUN_NET='10.0.0.0/8'") != std::string::npos);
}

TEST_CASE("bad settings are refused by name and value", "[host_settings]") {
    struct Case {
        const char* name;
        std::string value;
    };
    const Case cases[] = {
        {"DDPRUN_HOSTID", ""},
        {"DDPRUN_HOSTID", "two words"},
        {"DDPRUN_HOSTID", "a\nb"},
        {"DDPRUN_HOSTID", std::string(kMaxHostId + 1, 'x')},
        {"DDPRUN_HOSTID", "n\xc3\xb6"},
        {"DDPRUN_NET", ""},
        {"DDPRUN_NET", "eth0"},
        {"DDPRUN_NET", "10.0.0.0/40"},
        {"DDPRUN_PORT_RANGE", ""},
        {"DDPRUN_PORT_RANGE", "9-1"},
        {"DDPRUN_PORT_RANGE", "0-10"},
        {"DDPRUN_SOCKET_IFNAME", ""},
        {"DDPRUN_SOCKET_IFNAME", "^"},
        {"DDPRUN_SOCKET_IFNAME", "eth0,"},
        {"DDPRUN_SOCKETS_PER_PEER", "0"},
        {"DDPRUN_SOCKETS_PER_PEER", "5"},
        {"DDPRUN_SOCKETS_PER_PEER", "two"},
    };
    for (const Case& one : cases) {
        INFO(one.name << '=' << one.value);
        REQUIRE(refusal({{one.name, one.value}}).find(std::string(one.name) + "='" + one.value + "'") !=
                std::string::npos);
    }
    REQUIRE(refusal({}).empty());
    REQUIRE_FALSE(read_host_settings({}).chooses_address());
    const HostSettings settings = read_host_settings(
        {{"DDPRUN_HOSTID", std::string(kMaxHostId, 'x')}, {"DDPRUN_SOCKETS_PER_PEER", "4"}});
    REQUIRE(settings.host_id.size() == kMaxHostId);
    REQUIRE_FALSE(settings.ports);
    REQUIRE(read_host_settings({{"DDPRUN_PORT_RANGE", "40-49"}}).ports == PortRange{40, 49});
    REQUIRE(settings.sockets_per_peer == 4);
}

TEST_CASE("this machine has a loopback address", "[host_settings]") {
    bool found = false;
    for (const LocalAddress& local : local_addresses())
        found = found || (local.is_loopback && !local.address.empty());
    REQUIRE(found);
}

TEST_CASE("ranks are grouped by host, and across hosts by place", "[rank_group]") {
    const std::vector<std::string> mixed{"b", "a", "a", "b", "c", "c"};
    REQUIRE(all_ranks(on(mixed, 2)) == RankGroup{{0, 1, 2, 3, 4, 5}, 2});
    REQUIRE(ranks_of_host(on(mixed, 3)) == RankGroup{{0, 3}, 1});
    REQUIRE(ranks_across_hosts(on(mixed, 3)) == RankGroup{{3, 2, 5}, 0});
    REQUIRE(ranks_across_hosts(on(mixed, 1)) == RankGroup{{0, 1, 4}, 1});
    REQUIRE(ranks_across_hosts(on({"a", "a"}, 1)) == RankGroup{{1}, 0});
    REQUIRE(ranks_across_hosts(on({"a", "b", "c"}, 1)) == RankGroup{{0, 1, 2}, 1});
    for (int rank = 0; rank < 3; ++rank) {
        REQUIRE_FALSE(ranks_across_hosts(on({"a", "a", "b"}, rank)));
        REQUIRE_FALSE(ranks_across_hosts(on({"a", "b", "b"}, rank)));
    }
    const RankGroup group{{3, 2, 5}, 2};
    REQUIRE(group.right() == 3);
    REQUIRE(group.left() == 2);
}
