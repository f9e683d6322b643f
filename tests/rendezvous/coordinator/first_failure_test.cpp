#include "rendezvous/coordinator/first_failure.hpp"

#include <algorithm>
#include <csignal>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Failure end_of(int rank, int signal) {
    Failure failure;
    failure.rank = rank;
    failure.signal = signal;
    failure.exit_code = signal == 0 ? 3 : kExitSignalBase + signal;
    return failure;
}

std::optional<RankEnd> nobody(int) { return std::nullopt; }

int first_rank(const FirstFailure& failures) {
    const auto first = failures.first(nobody);
    return first ? first->rank : -1;
}

// What one of its workers says.
void tell(FirstFailure& failures, const Failure& failure) { failures.tell(failure.rank, failure); }

}  // namespace

TEST_CASE("the first failure by what was seen of the workers' ends") {
    struct End {
        int rank, signal;
    };
    struct Case {
        std::vector<int> suspects, contenders;
        End told;
        std::vector<End> later;
        int first;
    };
    const std::vector<Case> cases = {
        {{}, {}, {1, 0}, {{2, SIGKILL}}, 1},
        {{2}, {}, {1, 0}, {{2, 0}}, 2},
        {{3, 2}, {}, {1, 0}, {{2, 0}, {3, 0}}, 3},
        {{}, {2}, {1, 0}, {{2, SIGKILL}}, 2},
        {{}, {2}, {1, 0}, {{2, SIGSEGV}}, 2},
        {{}, {2}, {1, 0}, {{2, 0}}, 1},              // two exit codes
        {{}, {2}, {1, SIGSEGV}, {{2, SIGKILL}}, 1},  // two signals
        {{}, {2}, {1, 0}, {{2, SIGABRT}}, 1},        // the answer to a failure, likewise
        {{}, {2}, {1, 0}, {{2, SIGPIPE}}, 1},
        {{3}, {2}, {1, 0}, {{2, SIGKILL}, {3, 0}}, 3},  // who was seen before counts more
        {{1}, {2}, {1, 0}, {{2, SIGKILL}}, 1},
        {{2}, {2}, {1, SIGKILL}, {{2, 0}}, 2},
    };
    for (const Case& one : cases) {
        for (const bool reversed : {false, true}) {
            FirstFailure failures;
            for (const int rank : one.suspects) failures.suspect(rank);
            for (const int rank : one.contenders) failures.contend(rank);
            auto later = one.later;
            if (reversed) std::reverse(later.begin(), later.end());
            tell(failures, end_of(one.told.rank, one.told.signal));
            for (const End& end : later) tell(failures, end_of(end.rank, end.signal));
            CHECK(first_rank(failures) == one.first);
        }
    }
}

TEST_CASE("of several that were killed before anybody knew, the one told first counts") {
    for (const int first : {2, 3}) {
        FirstFailure failures;
        failures.contend(2);
        failures.contend(3);
        tell(failures, end_of(first, SIGKILL));
        tell(failures, end_of(5 - first, SIGKILL));
        CHECK(first_rank(failures) == first);
    }
}

TEST_CASE("the first failure is the first suspect whose end is one, or else the first told") {
    struct Case {
        std::vector<int> suspects;
        std::vector<int> failed;  // in the order in which it was told
        int first;
    };
    const std::vector<Case> cases = {
        {{}, {}, -1},           {{}, {2, 1}, 2},        {{1}, {}, -1},
        {{1}, {2}, 2},  // the suspect's end was none
        {{1}, {2, 1}, 1},       {{1}, {1, 2}, 1},       {{3, 1}, {2, 1}, 1},
        {{3, 1}, {2, 1, 3}, 3}, {{3, 1}, {1, 2, 3}, 3}, {{3, 1, 3}, {0, 3, 1}, 3},
    };
    for (const Case& one : cases) {
        FirstFailure failures;
        for (const int rank : one.suspects) failures.suspect(rank);
        for (const int rank : one.failed) tell(failures, end_of(rank, 0));
        CHECK(first_rank(failures) == one.first);
    }
}

TEST_CASE("one that was being killed when another failed by an exit code was before it") {
    FirstFailure failures;
    tell(failures, end_of(1, 0));
    failures.contend(2);
    failures.contend(3);
    CHECK(failures.is_contender(2));
    CHECK_FALSE(failures.is_suspect(2));
    REQUIRE(failures.may_be_first(3));
    tell(failures, end_of(3, 0));  // ended by a code, too
    CHECK(first_rank(failures) == 1);
    REQUIRE(failures.may_be_first(2));
    tell(failures, end_of(2, SIGKILL));
    CHECK(first_rank(failures) == 2);
}

TEST_CASE("a failure that another one's last words explain was before it") {
    FirstFailure failures;
    failures.contend(2);
    Failure& told = failures.tell(1, end_of(1, 0));
    tell(failures, end_of(2, 0));
    CHECK(first_rank(failures) == 1);
    told.last_lines = {"barrier() as call 1: rank 2 left: its process exited"};
    CHECK(first_rank(failures) == 2);
    told.last_lines = {"barrier() as call 1: rank 7 left: its process exited"};  // on another node
    CHECK(first_rank(failures) == 1);
}

TEST_CASE("what can no more be the first failure is known, and what is told stays where it is") {
    FirstFailure failures;
    failures.suspect(5);
    Failure& told = failures.tell(1, end_of(1, 0));
    CHECK_FALSE(failures.may_be_first(2));
    REQUIRE(failures.may_be_first(5));
    Failure& suspect = failures.tell(5, end_of(5, 0));
    told.hint = "told";
    suspect.error_message = "suspect";
    CHECK(failures.first(nobody)->error_message == "suspect");
    CHECK(failures.is_suspect(5));
    CHECK_FALSE(failures.is_suspect(1));
}

TEST_CASE("a node may say more of its failure later, in whatever order the nodes speak") {
    for (const bool own_first : {false, true}) {
        FirstFailure failures;
        failures.tell(0, end_of(1, 0));
        failures.contend(2);
        if (!own_first) failures.tell(1, end_of(5, 0));
        Failure more = end_of(2, SIGKILL);
        more.hint = "memory";
        failures.tell(0, more);
        if (own_first) failures.tell(1, end_of(5, 0));
        CHECK(failures.first(nobody) == more);
    }
}

TEST_CASE("a signal or a lost node that was told first stays first") {
    for (const auto kind : {Failure::Kind::signalled, Failure::Kind::node_lost}) {
        FirstFailure failures;
        Failure outside{.kind = kind};
        failures.tell(0, outside);
        failures.contend(2);
        failures.tell(0, end_of(2, SIGKILL));
        failures.tell(1, end_of(5, SIGKILL));
        CHECK(failures.first(nobody) == outside);
    }
}

}  // namespace ddprun
