#include "rendezvous/net/local_addresses.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Addresses = std::vector<std::string>;

const std::vector<LocalAddress> kOwn = {{"lo", "127.0.0.1", true},
                                        {"lo", "::1", true},
                                        {"eth0", "10.78.0.1", false},
                                        {"eth0", "fd00:78::1", false}};

ListenRequest request(std::string master_addr, std::variant<Addresses, std::string> resolved,
                      int nnodes = 1) {
    return {.nnodes = nnodes,
            .any = false,
            .master_addr = std::move(master_addr),
            .resolved = resolved,
            .own = kOwn};
}

ListenPlan plan(const ListenRequest& request) {
    auto planned = plan_listening(request);
    if (const auto* refusal = std::get_if<std::string>(&planned)) FAIL(*refusal);
    return std::get<ListenPlan>(planned);
}

std::string refusal(const ListenRequest& request) {
    auto planned = plan_listening(request);
    REQUIRE(std::holds_alternative<std::string>(planned));
    return std::get<std::string>(planned);
}

}  // namespace

TEST_CASE("one node listens on the addresses that its workers are told, and on loopback") {
    struct Case {
        const char* master_addr;
        Addresses resolved;
        Addresses expected;
    };
    const std::vector<Case> cases = {
        {"127.0.0.1", {"127.0.0.1"}, {}},
        {"10.78.0.1", {"10.78.0.1"}, {"10.78.0.1"}},
        {"fd00:78::1", {"fd00:78::1"}, {"fd00:78::1"}},
        {"::1", {"::1"}, {"::1"}},
        {"gpu01", {"127.0.1.1"}, {"127.0.1.1"}},
        {"localhost", {"::1", "127.0.0.1"}, {"::1"}},
        {"gpu01", {"10.78.0.1", "fd00:78::1"}, {"10.78.0.1", "fd00:78::1"}},
        // What is not ours is left out where something is.
        {"gpu01", {"10.99.0.1", "10.78.0.1"}, {"10.78.0.1"}},
        {"fe80::1%eth0", {"fe80::1%eth0"}, {"fe80::1%eth0"}},
    };
    for (const Case& one : cases) {
        INFO(one.master_addr);
        const ListenPlan planned = plan(request(one.master_addr, one.resolved));
        CHECK_FALSE(planned.any);
        CHECK(planned.addresses == one.expected);
    }
}

TEST_CASE("node 0 of several listens where the others are told to call, too") {
    struct Case {
        const char* master_addr;
        Addresses resolved;
        Addresses expected;
    };
    const std::vector<Case> cases = {
        {"10.78.0.1", {"10.78.0.1"}, {"10.78.0.1"}},
        {"gpu01", {"127.0.1.1", "10.78.0.1"}, {"127.0.1.1", "10.78.0.1"}},
        {"gpu01", {"10.99.0.1", "fd00:78::1"}, {"fd00:78::1"}},
        // All nodes on this machine.
        {"localhost", {"::1", "127.0.0.1"}, {"::1"}},
        {"127.0.0.1", {"127.0.0.1"}, {}},
        {"::1", {"::1"}, {"::1"}},
    };
    for (const Case& one : cases) {
        INFO(one.master_addr);
        const ListenPlan planned = plan(request(one.master_addr, one.resolved, 2));
        CHECK_FALSE(planned.any);
        CHECK(planned.addresses == one.expected);
    }
}

TEST_CASE("other machines reach what listens on another address than loopback") {
    CHECK(leads_out({.any = true}));
    CHECK(leads_out({.addresses = {"127.0.1.1", "10.78.0.1"}}));
    CHECK_FALSE(leads_out({.addresses = {"::1", "127.0.1.1"}}));
    CHECK_FALSE(leads_out({}));
}

TEST_CASE("on all addresses listens who asks for it, or has a name that others know as another address") {
    CHECK(plan(request("gpu01", Addresses{"127.0.1.1"}, 2)).any);
    CHECK(plan(request("gpu01", Addresses{"127.0.1.1"}, 2)).name_stays_here);
    // The other nodes may know the name, as where it belongs to a service that does not yet run.
    CHECK(plan(request("trainer-0.trainer", "Name or service not known", 2)).any);
    ListenRequest translated = request("203.0.113.9", Addresses{"203.0.113.9"}, 2);
    translated.any = true;
    CHECK(plan(translated).any);
    CHECK_FALSE(plan(translated).name_stays_here);
}

TEST_CASE("a node 0 that is told somebody else's address is refused, with the addresses it has") {
    const std::string alone = refusal(request("10.99.9.9", Addresses{"10.99.9.9"}));
    CHECK_THAT(alone, Catch::StartsWith("--master-addr 10.99.9.9: no address of this machine, which has "
                                        "10.78.0.1 (eth0), fd00:78::1 (eth0); node 0"));
    CHECK_THAT(alone, Catch::Contains("--listen any") && !Catch::Contains("--node-rank"));
    const std::string named = refusal(request("gpu02", Addresses{"10.78.0.2"}, 2));
    CHECK_THAT(named, Catch::Contains("--master-addr gpu02 (10.78.0.2)") && Catch::Contains("--node-rank"));
    CHECK_THAT(refusal(request("nowhere", "Name or service not known")),
               Catch::Equals(
                   "--master-addr nowhere: cannot be resolved on this machine: Name or service not known"));
}

TEST_CASE("a machine with many addresses names some of them") {
    ListenRequest crowded = request("10.99.9.9", Addresses{"10.99.9.9"});
    for (int i = 0; i < 100; ++i) crowded.own.push_back({"veth", "10.1.0." + std::to_string(i), false});
    CHECK(refusal(crowded).size() < 500);
    crowded.own.clear();
    CHECK_THAT(refusal(crowded), Catch::Contains("which has loopback addresses only"));
}

TEST_CASE("this machine's addresses are known") {
    const auto own = local_addresses();
    CHECK(std::any_of(own.begin(), own.end(),
                      [](const LocalAddress& local) { return local.address == "127.0.0.1"; }));
    for (const char* loopback : {"127.0.0.1", "127.0.1.1", "127.255.0.9", "::1"})
        CHECK(is_loopback_address(loopback));
    for (const char* other : {"128.0.0.1", "::2", "localhost", ""}) CHECK_FALSE(is_loopback_address(other));
}

TEST_CASE("what stands for all addresses of a machine") {
    for (const char* address : {"0.0.0.0", "::", "0:0:0:0:0:0:0:0", "*"}) CHECK(is_wildcard(address));
    for (const char* address : {"127.0.0.1", "::1", "0.0.0.1", "node0", ""})
        CHECK_FALSE(is_wildcard(address));
}

}  // namespace ddprun
