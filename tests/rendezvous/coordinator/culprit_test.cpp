#include "rendezvous/coordinator/first_failure.hpp"

#include <csignal>
#include <map>

#include "rendezvous/control/control_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::string kCallText = "all_reduce(sum, 16 f32) as call 7: ";

std::string late(int rank) {
    return kCallText + "after 5 s (operation_timeout) " + accuse(rank, Charge::does_not_answer);
}
std::string died(int rank) { return kCallText + accuse(rank, Charge::died) + ": its process ended"; }

Failure failed(int rank, std::vector<std::string> words, int signal = 0) {
    Failure failure{.kind = Failure::Kind::worker_failed};
    failure.rank = rank;
    failure.pid = 100 + rank;
    failure.signal = signal;
    failure.exit_code = signal == 0 ? 1 : kExitSignalBase + signal;
    failure.last_lines = std::move(words);
    return failure;
}

// Four ranks, two a node; those that are not in `ends` were stopped.
EndOfRank world(const std::map<int, RankEnd::Manner>& manners = {}) {
    return [manners](int rank) -> std::optional<RankEnd> {
        if (rank < 0 || rank > 3) return std::nullopt;
        RankEnd end{
            .rank = rank, .local_rank = rank % 2, .node_rank = rank / 2, .host = "gpu", .pid = 200 + rank};
        const auto found = manners.find(rank);
        end.manner = found == manners.end() ? RankEnd::Manner::stopped : found->second;
        end.exit_code = 9;
        return end;
    };
}

Failure judge(const std::vector<Failure>& failures, const EndOfRank& ends = world()) {
    std::vector<const Failure*> known;
    for (const Failure& failure : failures) known.push_back(&failure);
    return culprit_of(failures.front(), known, ends);
}

}  // namespace

TEST_CASE("the words of a failed worker name the culprit, and its exit code stays") {
    const Failure culprit = judge({failed(0, {"start", late(2)})});
    CHECK(culprit.rank == 2);
    CHECK(culprit.local_rank == 0);
    CHECK(culprit.node_rank == 1);
    CHECK(culprit.pid == 202);
    CHECK(culprit.exit_code == 1);
    CHECK(culprit.witness == 0);
    CHECK(culprit.accusation == "does not answer");
    CHECK(culprit.testimony == late(2));
    CHECK(culprit.last_lines == std::vector<std::string>{"start", late(2)});
    CHECK(to_text(culprit) == "rank 2 on node 1 (gpu): does not answer, says rank 0 (exit code 1)");
    CHECK(reporter_of(culprit) == 0);
    CHECK(judge({failed(0, {kCallText + "rank 1 is at barrier() as call 6"})}).accusation == "has not come");
}

TEST_CASE("whose words count as an accusation") {
    CHECK(accusation_of(failed(0, {late(2), "", "a", "  ", "b"})));
    CHECK_FALSE(accusation_of(failed(0, {late(2), "a", "b", "c"})));
    CHECK(accusation_of(failed(0, {late(2)}, SIGABRT)));  // an exception nobody caught
    CHECK_FALSE(accusation_of(failed(0, {late(2)}, SIGKILL)));
    Failure with_file = failed(0, {late(1)});
    with_file.error_message = "Traceback\nRuntimeError: " + late(2);
    CHECK(accusation_of(with_file)->rank == 2);
    with_file.error_message = "ValueError: x";
    CHECK_FALSE(accusation_of(with_file));
    Failure signalled = failed(0, {late(2)});
    signalled.kind = Failure::Kind::signalled;
    CHECK_FALSE(accusation_of(signalled));
}

TEST_CASE("accusations are followed to those that failed by themselves, and no further than they can be") {
    using Manner = RankEnd::Manner;
    struct Case {
        std::vector<Failure> failures;
        std::map<int, Manner> manners;
        int rank, exit_code, witness;
    };
    const std::vector<Case> cases = {
        {{failed(0, {"ValueError"})}, {}, 0, 1, -1},
        {{failed(0, {late(4)})}, {}, 0, 1, -1},                                  // there is no such rank
        {{failed(0, {late(0)})}, {}, 0, 1, -1},                                  // it means itself
        {{failed(0, {died(2)}), failed(2, {"last"}, SIGKILL)}, {}, 2, 137, -1},  // its own failure
        {{failed(0, {died(2)})}, {{2, Manner::failed}}, 2, 9, -1},               // whose words nobody has
        {{failed(0, {died(2)})}, {{2, Manner::succeeded}}, 2, 1, 0},
        {{failed(0, {died(2)})}, {{2, Manner::lost}}, 2, 1, 0},
        {{failed(0, {late(2)}), failed(2, {"last"})},
         {{2, Manner::failed}},
         2,
         1,
         0},  // it failed after that
        {{failed(0, {died(2)}), failed(2, {late(3)})}, {}, 3, 1, 2},
        {{failed(0, {late(2)}), failed(2, {died(3)}), failed(3, {""}, SIGSEGV)}, {}, 3, 139, -1},
        {{failed(0, {died(2)}), failed(2, {died(0)})}, {}, 0, 1, -1},  // each other
        {{failed(0, {late(1)}), failed(1, {late(2)}), failed(2, {late(0)})}, {}, 0, 1, -1},
        {{failed(0, {late(1)}), failed(1, {late(2)}), failed(2, {late(1)})}, {}, 0, 1, -1},
    };
    for (const Case& one : cases) {
        const Failure culprit = judge(one.failures, world(one.manners));
        INFO(one.failures.front().last_lines.front());
        CHECK(culprit.rank == one.rank);
        CHECK(culprit.exit_code == one.exit_code);
        CHECK(culprit.witness == one.witness);
    }
    CHECK(judge({failed(0, {died(2)})}, world({{2, Manner::failed}})).message == "rank 0 says: " + died(2));
}

}  // namespace ddprun
