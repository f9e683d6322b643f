// Who is to blame where the ranks do not all make the same call.
#include "collectives/liveness/judgement.hpp"
#include "collectives/liveness/lifeline_state.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using Ranks = std::vector<int>;

constexpr std::uint64_t kCall = 11;
const NamedTimeout kLimit{std::chrono::milliseconds(5000), "operation_timeout"};

Call all_reduce(std::uint64_t sequence, std::uint64_t count = 10) {
    return {Operation::all_reduce, DataType::f32, ReduceOp::sum, -1, count, sequence};
}
Call barrier(std::uint64_t sequence) {
    return {Operation::barrier, DataType::f32, ReduceOp::sum, -1, 0, sequence};
}

Stand made(const Call& call) { return {call, call, std::nullopt}; }
Stand left_after(std::uint64_t calls) { return {{}, std::nullopt, calls}; }
Stand still_at(const Call& call) { return {{}, call, std::nullopt}; }

void require(const std::vector<Stand>& stands, bool at_once, Code code, const Ranks& culprits,
             const std::string& text) {
    const auto verdict = judge_disagreement(stands, kCall, at_once);
    REQUIRE(verdict.has_value());
    CHECK(verdict->code == code);
    CHECK(verdict->culprits == culprits);
    CHECK(verdict->text == text);
}

bool is_open(const std::vector<Stand>& stands) { return !judge_disagreement(stands, kCall, false); }

}  // namespace

TEST_CASE("a call that most ranks do not make is blamed on those that make it", "[judgement]") {
    const Stand surplus = made(all_reduce(kCall));
    const Stand other = made(barrier(kCall));
    require(
        {other, surplus, other}, false, Code::mismatch, {1},
        "the ranks disagree: rank 1 called all_reduce(sum, 10 f32) as call 11, ranks 0, 2 called barrier() "
        "as call 11");
    require({left_after(10), surplus, left_after(10)}, false, Code::mismatch, {1},
            "the ranks disagree: rank 1 called all_reduce(sum, 10 f32) as call 11, ranks 0, 2 have made 10 "
            "calls and left");
    require(
        {left_after(10), surplus, surplus, left_after(10), left_after(10)}, false, Code::mismatch, {1, 2},
        "the ranks disagree: ranks 1, 2 called all_reduce(sum, 10 f32) as call 11, ranks 0, 3, 4 have made "
        "10 calls and left");
}

TEST_CASE("who leaves while most ranks go on is to blame", "[judgement]") {
    const Stand call = made(all_reduce(kCall));
    require({call, left_after(1), call}, false, Code::peer_left, {1},
            "rank 1 has made 1 call and left, ranks 0, 2 called all_reduce(sum, 10 f32) as call 11");
    require({call, left_after(0), call, left_after(10)}, false, Code::peer_left, {1, 3},
            "rank 1 has called nothing and left, rank 3 has made 10 calls and left, ranks 0, 2 called "
            "all_reduce(sum, 10 f32) as call 11");
}

TEST_CASE("where no side has most ranks, all are named that disagree, or those that have left",
          "[judgement]") {
    const Stand call = made(all_reduce(kCall));
    const Stand other = made(barrier(kCall));
    require(
        {call, other}, false, Code::mismatch, {0, 1},
        "the ranks disagree: rank 0 called all_reduce(sum, 10 f32) as call 11, rank 1 called barrier() as "
        "call 11");
    require({left_after(10), call}, false, Code::peer_left, {0},
            "rank 0 has made 10 calls and left, rank 1 called all_reduce(sum, 10 f32) as call 11");
    require({call, other, other, call}, false, Code::mismatch, {0, 1, 2, 3},
            "the ranks disagree: ranks 0, 3 called all_reduce(sum, 10 f32) as call 11, ranks 1, 2 called "
            "barrier() as call 11");
}

TEST_CASE("nobody is blamed before it is known what most ranks do, unless there is no more time",
          "[judgement]") {
    const Stand call = made(all_reduce(kCall));
    const Stand other = made(barrier(kCall));
    REQUIRE(is_open({still_at(all_reduce(10)), call, other}));
    REQUIRE(is_open({left_after(10), call, Stand{}}));
    require({still_at(all_reduce(10)), call, other}, true, Code::mismatch, {1, 2},
            "the ranks disagree: rank 0 has made 10 calls, rank 1 called all_reduce(sum, 10 f32) as call 11, "
            "rank 2 called barrier() as call 11");
    require(
        {left_after(10), call, Stand{}}, true, Code::peer_left, {0},
        "rank 0 has made 10 calls and left, rank 1 called all_reduce(sum, 10 f32) as call 11, rank 2 does "
        "not answer");
    // Most of those of whom anything is known.
    require({left_after(10), call, left_after(10), Stand{}}, true, Code::mismatch, {1},
            "the ranks disagree: rank 1 called all_reduce(sum, 10 f32) as call 11, rank 3 does not answer, "
            "ranks 0, 2 have made 10 calls and left");
}

TEST_CASE("there is nothing to judge where the ranks agree", "[judgement]") {
    const Stand call = made(all_reduce(kCall));
    for (const bool at_once : {false, true}) {
        REQUIRE_FALSE(judge_disagreement({call, call, call}, kCall, at_once));
        REQUIRE_FALSE(judge_disagreement({call, Stand{}, left_after(kCall)}, kCall, at_once));
        REQUIRE_FALSE(judge_disagreement({left_after(10), left_after(9), Stand{}}, kCall, at_once));
    }
}

TEST_CASE("at the deadline, too, most ranks are right, as long as they answer", "[judgement]") {
    const std::vector<std::optional<Call>> idle{all_reduce(10), all_reduce(kCall), all_reduce(10)};
    const Verdict verdict = blame_for_deadline(idle, all_reduce(kCall), 1, {0}, kLimit);
    REQUIRE(verdict.code == Code::timed_out);
    REQUIRE(verdict.culprits == Ranks{1});
    REQUIRE(verdict.text ==
            "after 5 s (operation_timeout) rank 1 called all_reduce(sum, 10 f32) as call 11, ranks 0, 2 have "
            "made 10 calls");
    REQUIRE(blame_for_deadline({all_reduce(10), all_reduce(kCall), std::nullopt}, all_reduce(kCall), 1, {0},
                               kLimit)
                .culprits == Ranks{0, 2});
    REQUIRE(
        blame_for_deadline({all_reduce(10), all_reduce(kCall)}, all_reduce(kCall), 1, {0}, kLimit).culprits ==
        Ranks{0});
    const std::vector<std::optional<Call>> elsewhere{barrier(kCall), all_reduce(kCall), barrier(kCall)};
    for (const int judge : {0, 1}) {
        const Verdict differ =
            blame_for_deadline(elsewhere, *elsewhere[static_cast<std::size_t>(judge)], judge, {0}, kLimit);
        REQUIRE(differ.code == Code::mismatch);
        REQUIRE(differ.culprits == Ranks{1});
    }
}

TEST_CASE("a rank that was asked about a call it has not made says so when it makes it", "[judgement]") {
    LifelineState asker(0, 3);
    LifelineState late(1, 3);
    asker.enter(all_reduce(kCall));
    late.enter(all_reduce(10));
    asker.heard(LeftNotice{2, 10}, 2);
    const auto question = asker.suspect(kCall);
    REQUIRE_FALSE(asker.verdict().has_value());
    const auto answers = late.heard(question.front().notice, 0);
    asker.heard(answers.back().notice, 1);
    REQUIRE_FALSE(asker.verdict().has_value());
    REQUIRE_FALSE(late.owes_answer());
    late.enter(all_reduce(kCall));
    REQUIRE(late.owes_answer());
    const auto later = late.answer();
    REQUIRE_FALSE(late.owes_answer());
    asker.heard(later.front().notice, 1);
    REQUIRE(asker.verdict().has_value());
    REQUIRE(asker.verdict()->code == Code::peer_left);
    REQUIRE(asker.verdict()->culprits == Ranks{2});
}
