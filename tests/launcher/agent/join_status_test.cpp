#include "launcher/join/join_status.hpp"
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
    CHECK(status.passing(kStart + 3s) == "waiting for node 0, 3 s of 60 s: refused");
    status.waiting({1, 2, {1}, {"node 0 (gpu0)"}}, kStart + 4s);
    CHECK(status.passing(kStart + 5s) == "waiting for node 1, 5 s of 60 s: joined 1/2; there: node 0 (gpu0)");
    // Who is about to be told that nothing answers has waited beyond the limit.
    CHECK_THAT(status.passing(kStart + 65s), Catch::StartsWith("waiting for node 1, 60 s of 60 s: "));
}

TEST_CASE(
    "the passing line folds who is missing, and 80 columns have room for them, the times and the count") {
    std::vector<int> numbers;
    std::vector<std::string> hosts, odd;
    for (int i = 1; i <= 64; ++i) {
        numbers.push_back(i);
        hosts.push_back("gpu" + std::to_string(100 + i));
        odd.push_back(std::string(static_cast<std::size_t>(i), 'x') + "-host");
    }
    const auto passing = [](int expected, std::vector<int> missing, std::vector<std::string> names,
                            int least = 0) {
        JoinStatus status(kStart, 3s, 15min, "");
        Waiting waiting{.joined = 1, .expected = expected, .missing = std::move(missing)};
        waiting.missing_hosts = std::move(names);
        waiting.at_most = least;
        status.waiting(waiting, kStart + 4s);
        return status.passing(kStart + 4s);
    };
    CHECK(passing(2, {1}, {"gpu07"}) == "waiting for node 1 (gpu07), 4 s of 15 min: joined 1/2");
    CHECK(passing(4, {1, 2, 5}, {}) == "waiting for nodes 1-2,5, 4 s of 15 min: joined 1/4");
    CHECK(passing(4, {1, 2, 5}, {"gpu02", "gpu03", "big"}) ==
          "waiting for gpu[02-03],big, 4 s of 15 min: joined 1/4");
    CHECK(passing(4, {1, 2, 5}, {"gpu02"}) == "waiting for nodes 1-2,5, 4 s of 15 min: joined 1/4");
    CHECK(passing(65, numbers, {}) == "waiting for nodes 1-64, 4 s of 15 min: joined 1/65");
    CHECK(passing(101, numbers, hosts) ==
          "waiting for gpu[101-164] and 36 more, 4 s of 15 min: joined 1/101");
    CHECK(passing(1000, {}, {}) == "waiting for 999 nodes, 4 s of 15 min: joined 1/1000");
    CHECK(passing(65, numbers, odd).find(", 4 s of") + std::string("ddprun: ").size() <= 80);
    CHECK_THAT(passing(2, {}, {}, 4),
               Catch::StartsWith("waiting for 1 node, 4 s of 15 min: joined 1, the job needs"));
    CHECK_THAT(passing(1, {}, {}, 4),
               Catch::StartsWith("waiting for others, 4 s of 15 min: joined 1 of at most 4"));
}

TEST_CASE("who was refused stays in the line and the reminder until somebody comes") {
    JoinStatus status(kStart, 3s, 15min, "each other node needs a --node-rank of its own");
    status.waiting({1, 3, {1, 2}, {"node 0 (gpu0)"}}, kStart + 1s);
    const std::string told = "refused an agent on gb (pid 7): this agent runs other arguments";
    CHECK(status.refused({"gb", 7, "this agent runs other arguments"}) == told);
    CHECK_THAT(status.passing(kStart + 5s), Catch::Contains(told));
    status.waiting({1, 3, {1, 2}, {"node 0 (gpu0)"}}, kStart + 6s);
    CHECK(status.passing(kStart + 6s) ==
          "waiting for nodes 1-2, 6 s of 15 min: joined 1/3; " + told + "; there: node 0 (gpu0)");
    CHECK_THAT(status.remind(kStart + 30s), Catch::EndsWith("(--join-timeout); " + told));
    status.waiting({2, 3, {2}, {"node 0 (gpu0)", "node 1 (gb)"}}, kStart + 31s);
    CHECK_THAT(status.passing(kStart + 32s), !Catch::Contains("refused"));
    CHECK_THAT(status.remind(kStart + 60s), Catch::EndsWith("needs a --node-rank of its own"));
}

TEST_CASE("node 0 is told what the others may lack, by whoever has started them") {
    LaunchOptions options;
    options.master.host = "gpu0";
    CHECK_THAT(advice_to(options), Catch::StartsWith("each other node needs a --node-rank"));
    options.is_started = true;
    CHECK(advice_to(options) ==
          "each other node has to reach node 0 at gpu0; --master-addr gives it another address");
    options.node_rank = 1;
    CHECK(advice_to(options).empty());
}

TEST_CASE("who was not elected is told why, whatever etcd's words hold") {
    const Refused refused =
        JoinStatus::not_elected("etcd refuses: \x1b[31mno\a\r\n" + std::string(5000, 'x'));
    CHECK(refused.exit_code == kExitUnavailable);
    CHECK(refused.reason.size() < 2000);
    CHECK(refused.reason.find_first_of("\x1b\a\r\n") == std::string::npos);
}

}  // namespace ddprun
