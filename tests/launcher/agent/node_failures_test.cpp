#include "launcher/agent/node_failures.hpp"

#include <csignal>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Failure failure_of(int rank) {
    Failure failure;
    failure.rank = rank;
    return failure;
}

int first_rank(const NodeFailures& failures) {
    const auto* first = failures.first();
    return first == nullptr ? -1 : first->failure.rank;
}

}  // namespace

TEST_CASE("the node's first failure is the first suspect whose end is one, or else the first told") {
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
        NodeFailures failures;
        for (const int rank : one.suspects) failures.suspect(rank);
        for (const int rank : one.failed) failures.add(failure_of(rank));
        CHECK(first_rank(failures) == one.first);
    }
}

TEST_CASE("one that was being killed when another failed by an exit code was before it") {
    NodeFailures failures;
    failures.add(failure_of(1));
    failures.contend(2);
    failures.contend(3);
    CHECK(failures.is_contender(2));
    CHECK_FALSE(failures.is_suspect(2));
    REQUIRE(failures.add(failure_of(3)) != nullptr);  // ended by a code, too
    CHECK(first_rank(failures) == 1);
    Failure killed = failure_of(2);
    killed.signal = SIGKILL;
    REQUIRE(failures.add(killed) != nullptr);
    CHECK(first_rank(failures) == 2);
}

TEST_CASE("a failure that another one's last words explain was before it") {
    NodeFailures failures;
    failures.contend(2);
    auto* told = failures.add(failure_of(1));
    failures.add(failure_of(2));
    CHECK(first_rank(failures) == 1);
    told->failure.last_lines = {"barrier() as call 1: rank 2 left: its process exited"};
    CHECK(first_rank(failures) == 2);
    told->failure.last_lines = {"barrier() as call 1: rank 7 left: its process exited"};  // on another node
    CHECK(first_rank(failures) == 1);
}

TEST_CASE("what can no more be the first failure is not kept, and what is kept stays where it is") {
    NodeFailures failures;
    failures.suspect(5);
    NodeFailures::Record* told = failures.add(failure_of(1));
    REQUIRE(told != nullptr);
    CHECK(failures.add(failure_of(2)) == nullptr);
    NodeFailures::Record* suspect = failures.add(failure_of(5));
    REQUIRE(suspect != nullptr);
    told->failure.hint = "told";
    suspect->error_file_text = "suspect";
    CHECK(failures.first() == suspect);
    CHECK(failures.first()->error_file_text == "suspect");
    CHECK(failures.is_suspect(5));
    CHECK_FALSE(failures.is_suspect(1));
}

}  // namespace ddprun
