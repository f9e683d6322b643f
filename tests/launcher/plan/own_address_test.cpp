#include "launcher/plan/own_address.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::vector<LocalAddress> kMachine = {{"lo", "127.0.0.1", true},    {"docker0", "172.17.0.1", false},
                                            {"eth0", "10.78.0.1", false}, {"eth0", "fd78::1", false},
                                            {"eth1", "10.88.0.1", false}, {"ib0", "192.168.7.1", false}};

using Resolved = std::variant<std::vector<std::string>, std::string>;

// The address with its interface, or the refusal.
std::string choice_of(const std::string& local_addr, const Resolved& resolved, const std::string& networks,
                      const std::vector<LocalAddress>& own = kMachine) {
    const auto chosen = choose_own_address({local_addr, resolved, networks, own});
    if (const auto* wrong = std::get_if<std::string>(&chosen)) return *wrong;
    const auto& address = std::get<OwnAddress>(chosen);
    return address.address + " of " + address.interface + " by " + address.source;
}

}  // namespace

TEST_CASE("an own address is that of --local-addr, else the first in the networks of --net") {
    const std::vector<std::string> none;
    const struct {
        std::string local_addr;
        Resolved resolved;
        std::string networks, expected;
    } rows[] = {
        {"", none, "", " of  by "},
        {"10.88.0.1", std::vector<std::string>{"10.88.0.1"}, "",
         "10.88.0.1 of eth1 by --local-addr 10.88.0.1"},
        {"me", std::vector<std::string>{"10.99.0.1", "fd78::1"}, "", "fd78::1 of eth0 by --local-addr me"},
        {"me", std::vector<std::string>{"10.78.0.1", "10.88.0.1"}, "10.88.0.0/16",
         "10.88.0.1 of eth1 by --local-addr me"},
        {"localhost", std::vector<std::string>{"127.0.0.1"}, "", "127.0.0.1 of  by --local-addr localhost"},
        {"gpu01", std::vector<std::string>{"127.0.1.1"}, "", "127.0.1.1 of  by --local-addr gpu01"},
        {"", none, "10.88.0.0/16", "10.88.0.1 of eth1 by --net 10.88.0.0/16"},
        {"", none, "10.0.0.0/8", "10.78.0.1 of eth0 by --net 10.0.0.0/8"},
        {"", none, "192.168.0.0/16,10.0.0.0/8", "192.168.7.1 of ib0 by --net 192.168.0.0/16,10.0.0.0/8"},
        {"", none, "10.99.0.0/16,fd78::/64", "fd78::1 of eth0 by --net 10.99.0.0/16,fd78::/64"},
        {"", none, "0.0.0.0/0", "172.17.0.1 of docker0 by --net 0.0.0.0/0"},
        {"", none, "127.0.0.0/8", "127.0.0.1 of  by --net 127.0.0.0/8"},
    };
    for (const auto& row : rows) {
        INFO(row.local_addr << " " << row.networks);
        CHECK(choice_of(row.local_addr, row.resolved, row.networks) == row.expected);
    }
}

TEST_CASE("an own address that cannot be is refused in one line with flag, value and this node's addresses") {
    const std::string has =
        "which has 172.17.0.1 (docker0), 10.78.0.1 (eth0), fd78::1 (eth0), 10.88.0.1 (eth1), 192.168.7.1 "
        "(ib0)";
    CHECK(choice_of("", {}, "10.99.0.0/16") ==
          "--net 10.99.0.0/16: no address of this node is in it, " + has);
    CHECK(
        choice_of("", {}, "10.99.0.0/16,fd99::/16", {{"lo", "127.0.0.1", true}}) ==
        "--net 10.99.0.0/16,fd99::/16: no address of this node is in it, which has loopback addresses only");
    CHECK(choice_of("x", std::vector<std::string>{"10.99.0.1"}, "") ==
          "--local-addr x: no address of this machine, " + has);
    CHECK(choice_of("x", std::string("unknown host"), "") ==
          "--local-addr x: cannot be resolved on this machine: unknown host");
    CHECK(choice_of("x", std::vector<std::string>{"10.78.0.1"}, "10.88.0.0/16") ==
          "--local-addr x: contradicts --net 10.88.0.0/16, in which it is not");
}

}  // namespace ddprun
