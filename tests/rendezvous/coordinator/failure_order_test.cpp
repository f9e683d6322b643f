#include "rendezvous/coordinator/failure_order.hpp"

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
            FailureOrder order;
            for (const int rank : one.suspects) order.suspect(rank);
            for (const int rank : one.contenders) order.contend(rank);
            auto later = one.later;
            if (reversed) std::reverse(later.begin(), later.end());
            Failure first = end_of(one.told.rank, one.told.signal);
            for (const End& end : later) {
                const Failure failure = end_of(end.rank, end.signal);
                if (order.is_before(failure, first)) first = failure;
            }
            CHECK(first.rank == one.first);
        }
    }
}

TEST_CASE("of several that were killed before anybody knew, the one told first counts") {
    FailureOrder order;
    order.contend(2);
    order.contend(3);
    CHECK_FALSE(order.is_before(end_of(3, SIGKILL), end_of(2, SIGKILL)));
    CHECK_FALSE(order.is_before(end_of(2, SIGKILL), end_of(3, SIGKILL)));
}

}  // namespace ddprun
