#include "launcher/round/round_ledger.hpp"

#include <csignal>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Manner = RankEnd::Manner;

RoundLedger ledger_of_node() {
    RoundReady place{.round = 2};
    place.base_rank = 10;
    return {1, "gpu1", place, "before"};
}

WorkerEnd end_of(int local_rank, const ExitStatus& status, bool stopped_by_us = false) {
    WorkerEnd end{.rank = 10 + local_rank, .local_rank = local_rank, .pid = 100 + local_rank};
    end.status = status;
    end.stopped_by_us = stopped_by_us;
    end.wall_time = std::chrono::milliseconds(70);
    return end;
}

int first_rank(const RoundLedger& ledger) {
    const auto failure = ledger.failure();
    return failure ? failure->rank : -1;
}

}  // namespace

TEST_CASE("the first worker that ends with 0 by itself is told apart") {
    RoundLedger ledger = ledger_of_node();
    const auto is_first = [&](int local_rank, const ExitStatus& status, bool stopped_by_us) {
        return ledger.ended(end_of(local_rank, status, stopped_by_us), 99).is_first_success;
    };
    CHECK_FALSE(is_first(0, Exited{3}, false));
    CHECK_FALSE(is_first(1, Exited{0}, true));
    CHECK(is_first(2, Exited{0}, false));
    CHECK_FALSE(is_first(3, Exited{0}, false));
}

TEST_CASE("how a worker ended, by its status and by who had told it to") {
    struct Case {
        bool is_suspect, is_contender;
        int stop_signal;
        ExitStatus status;
        bool stopped_by_us;
        Manner manner;
    };
    const std::vector<Case> cases = {
        {false, false, 0, Exited{0}, false, Manner::succeeded},
        {false, false, 0, Exited{7}, false, Manner::failed},
        {false, false, 0, Signaled{SIGSEGV, true}, false, Manner::failed},
        {false, false, SIGTERM, Exited{0}, true, Manner::stopped},
        {false, false, SIGTERM, Exited{7}, true, Manner::stopped},
        {false, false, SIGTERM, Signaled{SIGTERM, false}, true, Manner::stopped},
        {true, false, SIGTERM, Exited{7}, true, Manner::failed},  // it was ending before
        {true, false, SIGTERM, Exited{0}, true, Manner::succeeded},
        {false, true, SIGTERM, Signaled{SIGKILL, false}, true, Manner::failed},
        {false, true, SIGTERM, Signaled{SIGTERM, false}, true, Manner::stopped},  // whoever sent it
    };
    for (const Case& one : cases) {
        RoundLedger ledger = ledger_of_node();
        if (one.is_suspect) ledger.see({{.local_rank = 1, .life = 5, .is_running = true, .is_ending = true}});
        if (one.stop_signal != 0) {
            ledger.settle(one.is_contender ? std::vector<int>{11} : std::vector<int>{});
            ledger.stop(one.stop_signal);
        }
        const RoundLedger::Entry entry = ledger.ended(end_of(1, one.status, one.stopped_by_us), 99);
        CHECK(entry.end.manner == one.manner);
        CHECK(entry.end.exit_code == shell_code(one.status));
        CHECK(entry.end.wall_ms == 70);
        CHECK(entry.is_first == (one.stop_signal == 0));
        CHECK((entry.failure != nullptr) == (one.manner == Manner::failed));
        CHECK(ledger.all_zero() == (shell_code(one.status) == 0));
        CHECK(ledger.ends() == std::vector<RankEnd>{entry.end});
    }
}

TEST_CASE("a failure says whose it is and stays where it is, to be filled in further") {
    RoundLedger ledger = ledger_of_node();
    Failure* failure = ledger.ended(end_of(3, Signaled{SIGSEGV, true}), 99).failure;
    REQUIRE(failure != nullptr);
    Failure expected{.node_rank = 1, .host = "gpu1", .rank = 13, .local_rank = 3, .pid = 103};
    expected.exit_code = 128 + SIGSEGV;
    expected.signal = SIGSEGV;
    expected.core_dumped = true;
    expected.unix_time_ms = 99;
    CHECK(*failure == expected);
    CHECK(ledger.ended(end_of(0, Exited{1}), 100).failure == nullptr);  // it cannot be the first any more
    failure->hint = "filled in";
    CHECK(ledger.failure()->hint == "filled in");
}

TEST_CASE(
    "deaths are told in their order, those whose end is known last, and make suspects until a failure") {
    RoundLedger ledger = ledger_of_node();
    const auto seen = ledger.see({{.local_rank = 0, .life = 5, .is_running = false, .is_ending = false},
                                  {.local_rank = 3, .life = 6, .is_running = true, .is_ending = true},
                                  {.local_rank = 2, .life = 0, .is_running = true, .is_ending = false},
                                  {.local_rank = 1, .life = 7, .is_running = true, .is_ending = true}});
    CHECK(seen ==
          std::vector<WorkerDying>{{2, 13, 6, true}, {2, 12, 0, false}, {2, 11, 7, true}, {2, 10, 5, false}});
    ledger.ended(end_of(2, Exited{1}), 0);
    CHECK(first_rank(ledger) == 12);
    CHECK(ledger.settle({11, 13, 14}) == std::vector<int>{14});
    CHECK(ledger.is_settled());
    CHECK(ledger.settle({15}).empty());
    ledger.see({{.local_rank = 0, .life = 8, .is_running = true, .is_ending = true}});  // no suspect any more
    ledger.ended(end_of(0, Exited{1}, true), 0);
    CHECK(first_rank(ledger) == 12);
    ledger.ended(end_of(1, Exited{1}, true), 0);
    CHECK(first_rank(ledger) == 11);
    ledger.ended(end_of(3, Exited{1}, true), 0);
    CHECK(first_rank(ledger) == 13);
}

TEST_CASE("a worker that raised something before the stop ended by itself, unless a signal ended it") {
    const std::string lost = "ConnectionResetError: gone";
    struct Case {
        ExitStatus status;
        Manner manner;
        int first;
        int witness;
    };
    const std::vector<Case> cases = {
        {Exited{5}, Manner::failed, 12, -1},
        {Exited{kExitSignalBase + SIGTERM}, Manner::stopped, 12, 10},
        {Exited{0}, Manner::stopped, 10, -1},
        {Signaled{SIGTERM, false}, Manner::stopped, 12, 10},
        {Signaled{SIGKILL, false}, Manner::stopped, 12, 10},
    };
    for (const Case& one : cases) {
        RoundLedger ledger = ledger_of_node();
        auto entry = ledger.ended(end_of(0, Exited{1}), 99);
        REQUIRE(entry.failure);
        entry.failure->last_lines = {lost};
        ledger.settle({});
        ledger.note_raised({{12, "ValueError: x"}, {10, lost}, {11, lost}});
        CHECK(ledger.awaited_for(*entry.failure) == std::vector<int>{12});
        CHECK((ledger.has_lost_connection(10) && !ledger.has_lost_connection(12)));
        CHECK_FALSE(ledger.is_explained());
        ledger.stop(SIGTERM);
        entry = ledger.ended(end_of(2, one.status, true), 99);
        CHECK(entry.end.manner == one.manner);
        if (entry.failure != nullptr) entry.failure->last_lines = {"ValueError: x"};
        CHECK(ledger.awaited_for(*ledger.failure()).empty());
        CHECK(ledger.is_explained());
        CHECK(first_rank(ledger) == one.first);
        CHECK(ledger.failure()->witness == one.witness);
        CHECK(ledger.failure()->host == "gpu1");
        CHECK(ledger.failure()->exit_code == (entry.failure != nullptr ? 5 : 1));
    }
}

TEST_CASE("no worker is awaited that raised something later than the one that failed by its own words") {
    RoundLedger ledger = ledger_of_node();
    const Failure elsewhere{.rank = 3};
    const Failure own{.rank = 11};
    ledger.note_raised({{12, ""}, {11, "KeyError: 1"}, {13, "KeyError: 1"}});
    CHECK(ledger.awaited_for(own) == std::vector<int>{12});
    CHECK(ledger.awaited_for(elsewhere) == std::vector<int>{12, 11, 13});
}

TEST_CASE("a worker that could not be started is the first failure, and nothing is zero") {
    RoundLedger ledger = ledger_of_node();
    const Failure failure = ledger.refused({12, 2, {2, "cannot start 'x'", 127}}, 99);
    CHECK(failure.exit_code == 127);
    CHECK(failure.message == "cannot start 'x'");
    CHECK(failure.pid == 0);
    CHECK(ledger.failure() == failure);
    CHECK(ledger.is_settled());
    ledger.ended(end_of(0, Exited{0}, true), 0);
    CHECK_FALSE(ledger.all_zero());
}

TEST_CASE("a round has come to something when the progress file changed") {
    RoundLedger ledger = ledger_of_node();
    CHECK(ledger.gone("before") == WorkersGone{.round = 2, .all_zero = true});
    CHECK(ledger.gone("after").progressed);
    CHECK(ledger.gone("").progressed);
    ledger.ended(end_of(1, Exited{3}), 0);
    CHECK_FALSE(ledger.gone("before").all_zero);
    CHECK(ledger.gone("before").failure == ledger.failure());
}

TEST_CASE("the status has all workers by local rank") {
    RoundLedger ledger = ledger_of_node();
    ledger.ended(end_of(1, Exited{3}), 0);
    const auto status = ledger.status({{.rank = 12, .local_rank = 2, .pid = 102}, {.rank = 10, .pid = 100}});
    REQUIRE(status.size() == 3);
    CHECK(status[0].local_rank == 0);
    CHECK(status[1] == WorkerStatus{11, 1, 101, 3, 0});
    CHECK_FALSE(status[2].exit_code);
}

}  // namespace ddprun
