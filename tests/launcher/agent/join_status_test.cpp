#include "launcher/agent/agent_link.hpp"

#include "launcher/agent/launch_options.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

namespace {
const JoinStatus::TimePoint kStart{};
}

TEST_CASE("an agent that joins is silent at first, then says each cause once") {
    JoinStatus status(kStart, 3s, 15min, "");
    CHECK(status.trouble("refused", kStart + 1s).empty());
    CHECK(status.trouble("refused", kStart + 4s) ==
          "waiting for node 0: refused; 4 s of at most 15 min (--join-timeout)");
    CHECK(status.trouble("no route", kStart + 6s) ==
          "waiting for node 0: no route; 6 s of at most 15 min (--join-timeout)");
    for (int i = 0; i < 100; ++i) {
        CHECK(status.trouble("refused", kStart + 7s).empty());
        CHECK(status.trouble("no route", kStart + 8s).empty());
    }
    CHECK(status.waiting({1, 2, {1}, {"node 0 (gpu0)"}}, kStart + 9500ms) ==
          "joined 1/2, missing node 1; there: node 0 (gpu0); 9 s of at most 15 min (--join-timeout)");
    CHECK(status.waiting({1, 2, {1}, {"node 0 (gpu0)"}}, kStart + 10s).empty());
    CHECK(status.waiting({20, 21, {3}, {}}, kStart + 11s) ==
          "joined 20/21, missing node 3; 11 s of at most 15 min (--join-timeout)");
    CHECK_THAT(status.waiting({1, 2, {1}, {"node 0 (\x1b[2Jgpu\n0)"}}, kStart + 12s),
               Catch::StartsWith("joined 1/2, missing node 1; there: node 0 (gpu?0); 12 s"));
}

TEST_CASE("a port that is taken is named with its holder, if that can be seen") {
    CHECK(
        JoinStatus::port_taken(29400, PortOwner{77, "nc -l 29400"}) ==
        "this agent does not host the rendezvous, since port 29400 is held by pid 77 (nc -l 29400); end that "
        "process, or give all nodes another port in --rdzv-endpoint, or an --rdzv-id and no port");
    CHECK(JoinStatus::port_taken(29400, std::nullopt) ==
          "this agent does not host the rendezvous, since port 29400 was taken, by a process that has ended "
          "or cannot "
          "be seen; start again, or give all nodes another port in --rdzv-endpoint, or an --rdzv-id and no "
          "port");
}

TEST_CASE("causes without end are not all printed") {
    JoinStatus status(kStart, 0s, 15min, "");
    std::size_t printed = 0;
    for (int i = 0; i < 1000; ++i)
        printed += status.trouble("cause " + std::to_string(i), kStart + 1s).empty() ? 0 : 1;
    CHECK(printed == JoinStatus::kMaxCauses);
}

TEST_CASE("every half minute a reminder says how long it has been and how long it may be") {
    JoinStatus status(kStart, 3s, 15min, "have you forgotten something");
    REQUIRE(status.reminder_due() == kStart + 30s);
    CHECK(status.remind(kStart + 29s).empty());
    CHECK(status.remind(kStart + 30s).empty());  // nothing is known
    status.waiting({1, 2, {1}, {"node 0 (gpu0)"}}, kStart + 40s);
    REQUIRE(status.reminder_due() == kStart + 60s);
    CHECK(
        status.remind(kStart + 60s) ==
        "joined 1/2, missing node 1; there: node 0 (gpu0); 60 s of at most 15 min (--join-timeout); have you "
        "forgotten something");
    // A machine that slept owes one reminder, not all that it missed.
    CHECK(status.remind(kStart + 5min + 29s) != "");
    CHECK(status.reminder_due() == kStart + 5min + 30s);
    status.trouble("refused", kStart + 6min);
    CHECK_THAT(status.remind(kStart + 6min),
               Catch::StartsWith("waiting for node 0: refused; 6 min of at most"));
}

TEST_CASE("the passing line begins with what a narrow terminal must not cut off") {
    JoinStatus status(kStart, 3s, 60s, "advice");
    CHECK(status.passing(kStart + 5s).empty());  // nothing is known
    status.trouble("refused", kStart + 1s);
    CHECK(status.passing(kStart + 2s).empty());
    CHECK(status.passing(kStart + 3s) == "3 s of at most 60 s (--join-timeout): waiting for node 0: refused");
    status.waiting({1, 2, {1}, {"node 0 (gpu0)"}}, kStart + 4s);
    CHECK(status.passing(kStart + 5s) ==
          "5 s of at most 60 s (--join-timeout): joined 1/2, missing node 1; there: node 0 (gpu0)");
    // Who is about to be told that nothing answers has waited beyond the limit.
    CHECK_THAT(status.passing(kStart + 65s), Catch::StartsWith("60 s of at most 60 s (--join-timeout): "));
}

TEST_CASE("node 0 is told what the others may lack, by whoever has started them") {
    LaunchOptions options;
    options.master.host = "gpu0";
    CHECK_THAT(JoinStatus::advice_to(options), Catch::StartsWith("each other node needs a --node-rank"));
    options.is_started = true;
    CHECK(JoinStatus::advice_to(options) ==
          "each other node has to reach node 0 at gpu0; --master-addr gives it another address");
    options.node_rank = 1;
    CHECK(JoinStatus::advice_to(options).empty());
}

TEST_CASE("who was not elected is told why, whatever etcd's words hold") {
    const Refused refused =
        JoinStatus::not_elected("etcd refuses: \x1b[31mno\a\r\n" + std::string(5000, 'x'));
    CHECK(refused.exit_code == kExitUnavailable);
    CHECK(refused.reason.size() < 2000);
    CHECK(refused.reason.find_first_of("\x1b\a\r\n") == std::string::npos);
}

}  // namespace ddprun
