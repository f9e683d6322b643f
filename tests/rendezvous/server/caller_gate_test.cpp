#include "rendezvous/server/caller_gate.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Kind = ConnectionOwner::Kind;
using Pass = CallerGate::Pass;

constexpr uid_t kOwnUser = 1000;

CallerGate::Caller caller(Kind kind, const char* address, uid_t uid = 0) {
    return {{kind, uid}, boost::asio::ip::make_address(address)};
}

std::optional<std::string> turned_away(CallerGate& gate, const CallerGate::Caller& caller) {
    return gate.turn_away(caller, "", {}).sentence;
}

}  // namespace

TEST_CASE("who is turned away is an event, of each source once a minute, and of many as of one more") {
    using std::chrono::seconds;
    CallerGate gate(kOwnUser);
    const RefusedCallers::Clock::time_point start{};
    const auto event = [&](const CallerGate::Caller& caller, seconds after, const char* why = "") {
        return gate.turn_away(caller, why, start + after).event;
    };
    const auto other_user = caller(Kind::user, "::ffff:127.0.0.1", 1001);
    const auto first = event(other_user, seconds(0));
    REQUIRE(first);
    CHECK((first->address == "127.0.0.1" && first->user == 1001 && first->calls == 1));
    CHECK(first->reason == "only user 1000 and root may use it");
    for (int i = 0; i < 1'000; ++i) CHECK_FALSE(event(other_user, seconds(59)));
    CHECK(event(other_user, seconds(60)).value().calls == 1'001);
    CHECK_FALSE(event(caller(Kind::closed, "127.0.0.1"), seconds(60)));
    const auto agent = event(caller(Kind::elsewhere, "10.1.0.1"), seconds(60), "no key");
    REQUIRE(agent);
    CHECK((agent->user == -1 && agent->reason == "no key"));
    std::size_t told = 2;
    int others = 0;
    for (int last = 0; last < 200; ++last) {
        const auto one =
            event(caller(Kind::elsewhere, ("10.0.0." + std::to_string(last)).c_str()), seconds(61));
        if (!one) continue;
        ++told;
        others += one->address.empty() ? 1 : 0;
    }
    CHECK(told == RefusedCallers::kMostSources + 1);
    CHECK(others == 1);
}

TEST_CASE("who may say what at the port") {
    CallerGate gate(kOwnUser);
    gate.begin_round({boost::asio::ip::make_address("10.0.0.2"), boost::asio::ip::make_address("fe80::7%1")},
                     false);
    struct Case {
        CallerGate::Caller caller;
        Pass expected;
    };
    const std::vector<Case> cases = {
        {caller(Kind::user, "127.0.0.1", kOwnUser), Pass::everything},
        {caller(Kind::user, "127.0.0.1", 0), Pass::everything},
        {caller(Kind::user, "127.0.0.1", 1001), Pass::nothing},
        // Another user of this machine remains one, whichever of its addresses is used.
        {caller(Kind::user, "10.0.0.2", 1001), Pass::nothing},
        {caller(Kind::closed, "127.0.0.1"), Pass::nothing},
        {caller(Kind::untold, "127.0.0.1"), Pass::everything},
        {caller(Kind::untold, "::1"), Pass::everything},
        {caller(Kind::untold, "::ffff:127.0.0.1"), Pass::everything},
        {caller(Kind::untold, "10.0.0.9"), Pass::everything},
        {caller(Kind::elsewhere, "10.0.0.2"), Pass::everything},
        {caller(Kind::elsewhere, "::ffff:10.0.0.2"), Pass::everything},
        {caller(Kind::elsewhere, "fe80::7%3"), Pass::everything},
        {caller(Kind::elsewhere, "10.0.0.3"), Pass::agents_only},
        {caller(Kind::elsewhere, "fe80::8%3"), Pass::agents_only},
    };
    for (const Case& one : cases) {
        INFO(one.caller.address.to_string()
             << ", " << static_cast<int>(one.caller.owner.kind) << ", user " << one.caller.owner.uid);
        CHECK(gate.judge(one.caller) == one.expected);
    }
}

TEST_CASE("machines of the round before may not use the store of the next one") {
    CallerGate gate(kOwnUser);
    const auto there = caller(Kind::elsewhere, "10.0.0.2");
    CHECK(gate.judge(there) == Pass::agents_only);
    gate.begin_round({there.address}, false);
    CHECK(gate.judge(there) == Pass::everything);
    gate.admit({boost::asio::ip::make_address("10.0.0.3")});
    CHECK(gate.judge(there) == Pass::everything);
    CHECK(gate.judge(caller(Kind::elsewhere, "10.0.0.3")) == Pass::everything);
    gate.begin_round({}, false);
    CHECK(gate.judge(there) == Pass::agents_only);
}

TEST_CASE("where workers go through doors, other machines of the round have those only") {
    CallerGate gate(kOwnUser);
    const auto there = caller(Kind::elsewhere, "10.0.0.2"), stranger = caller(Kind::elsewhere, "10.0.0.3");
    gate.begin_round({there.address}, true);
    CHECK(gate.judge(there) == Pass::agents_only);
    CHECK(gate.lets_door_in(there));
    CHECK_FALSE(gate.lets_door_in(stranger));
    CHECK(gate.judge(caller(Kind::user, "127.0.0.1", kOwnUser)) == Pass::everything);
    CHECK(gate.lets_door_in(caller(Kind::user, "127.0.0.1", kOwnUser)));
    CHECK_FALSE(gate.lets_door_in(caller(Kind::user, "127.0.0.1", 1001)));
    CHECK_THAT(turned_away(gate, there).value(), Catch::EndsWith("through their agents' doors"));
    gate.begin_round({}, true);
    CHECK_FALSE(gate.lets_door_in(there));
    gate.begin_round({there.address}, false);
    CHECK(gate.judge(there) == Pass::everything);
}

TEST_CASE("where nobody is kept out, that is said once") {
    CallerGate gate(kOwnUser);
    CHECK_FALSE(gate.tell_untold(caller(Kind::user, "127.0.0.1", kOwnUser)));
    CHECK(gate.tell_untold(caller(Kind::untold, "127.0.0.1")));
    CHECK_FALSE(gate.tell_untold(caller(Kind::untold, "127.0.0.1")));
}

TEST_CASE("a caller is turned away with a sentence, once, and not all of them are told") {
    CallerGate gate(kOwnUser);
    CHECK_THAT(turned_away(gate, caller(Kind::user, "127.0.0.1", 1001)).value(),
               Catch::StartsWith("user 1001 of this machine was turned away"));
    CHECK_FALSE(turned_away(gate, caller(Kind::user, "127.0.0.1", 1001)));
    CHECK_FALSE(turned_away(gate, caller(Kind::closed, "127.0.0.1")));
    std::size_t told = 1;
    for (int last = 1; last < 100; ++last)
        told +=
            turned_away(gate, caller(Kind::elsewhere, ("10.0.0." + std::to_string(last)).c_str())) ? 1 : 0;
    CHECK(told == CallerGate::kMaxTold);
}

}  // namespace ddprun
