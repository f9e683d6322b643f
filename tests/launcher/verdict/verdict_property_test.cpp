#include <algorithm>
#include <iterator>
#include <random>
#include <set>

#include "launcher/verdict/judge.hpp"
#include "launcher/verdict/observation_text.hpp"
#include "launcher/verdict/stack_groups.hpp"
#include "launcher/verdict/straggler.hpp"
#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Chance makes looks of any kind, of the kinds of ranks of the tables among others.
class Chance {
  public:
    explicit Chance(unsigned seed) : random_(seed) {}

    int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
    bool one_in(int count) { return below(count) == 0; }

    std::vector<int> ranks(int world) {
        std::vector<int> ranks;
        for (int count = below(4); count > 0; --count)
            ranks.push_back(below(world + 2));  // some are not there
        return ranks;
    }

    Observation observation(int rank, int world) {
        const Observed made(kPrograms[below(4)]);
        if (one_in(8)) return made.ended(rank, below(2));
        const auto kind = static_cast<WaitKind>(below(static_cast<int>(WaitKind::starting) + 1));
        constexpr const char* kOperations[] = {"all_reduce", "broadcast", "recv", "send"};
        Observation one = one_in(2) ? made.meets(rank, kOperations[below(4)], 140 + below(2), ranks(world),
                                                 static_cast<std::uint64_t>(below(3)))
                                    : made.away(rank, kind);
        if (one_in(8)) one.wait->process = 1000 + below(world);
        if (one_in(8)) one.wait->thread = one.pid;
        if (one_in(8)) one.wait->is_listening = true;
        if (one_in(8)) one.peers = ranks(world);
        if (one_in(8)) one.own = {1u << 20, 0, one_in(2)};
        if (one.call && one_in(4)) one.call->group = one_in(2) ? "a" : "b";
        if (one_in(16)) one.wait.reset();
        if (one_in(16)) one.frames.clear();
        if (one_in(16)) one.why_unreadable = "why";
        if (one_in(32)) one.frames.assign(1, Frame{"\xff\x1b", "\n", -5, one_in(2)});
        return one;
    }

    std::vector<Observation> look() {
        const int world = 1 + below(12);
        std::vector<Observation> look;
        for (int rank = 0; rank < world; ++rank) look.push_back(observation(rank, world));
        if (one_in(16)) look.push_back(observation(below(world), world));  // a rank twice
        if (one_in(16)) look.erase(look.begin());
        return look;
    }

    void shuffle(std::vector<Observation>& look) { std::shuffle(look.begin(), look.end(), random_); }

  private:
    std::mt19937 random_;
};

bool are_twice(const std::vector<Observation>& look) {
    std::set<int> ranks;
    return !std::all_of(look.begin(), look.end(), [&](auto& one) { return ranks.insert(one.rank).second; });
}

}  // namespace

TEST_CASE("verdict: of any observations; suspects are of them and do not wait; their order means nothing") {
    const unsigned first = std::random_device()();
    for (unsigned seed = first; seed != first + 600; ++seed) {
        INFO("seed " << seed);
        Chance chance(seed);
        std::vector<Observation> look = chance.look();
        const HangVerdict verdict = judge(look, {.quiet = std::chrono::seconds(31), .limit = {}});
        std::set<int> ranks;
        for (const Observation& one : look) ranks.insert(one.rank);
        const auto are_of = [&](const std::vector<int>& some) {
            return std::is_sorted(some.begin(), some.end()) &&
                   std::includes(ranks.begin(), ranks.end(), some.begin(), some.end());
        };
        REQUIRE(are_of(verdict.suspects));
        REQUIRE(are_of(verdict.waiting));
        std::vector<int> both;
        std::set_intersection(verdict.suspects.begin(), verdict.suspects.end(), verdict.waiting.begin(),
                              verdict.waiting.end(), std::back_inserter(both));
        REQUIRE(both.empty());
        REQUIRE(verdict.sentence.empty() == (verdict.kind == VerdictKind::none));
        REQUIRE(verdict.sentence.find_first_of("\x1b\n") == std::string::npos);
        REQUIRE(verdict.evidence.size() <= kMaxEvidence);
        if (verdict.kind == VerdictKind::deadlock) REQUIRE(verdict.suspects.size() >= 2);
        if (verdict.kind == VerdictKind::waiting) REQUIRE(!verdict.suspects.empty());
        stacks_text({.threads = true, .native = true}, look, verdict);
        stacks_json({.threads = true}, look, verdict);
        if (are_twice(look)) continue;
        REQUIRE(parse_observations(to_json(look)).has_value() ==
                std::none_of(look.begin(), look.end(), [](const Observation& one) {
                    return std::any_of(one.frames.begin(), one.frames.end(),
                                       [](auto& frame) { return frame.line < 0; });
                }));
        chance.shuffle(look);
        REQUIRE(judge(look, {.quiet = std::chrono::seconds(31), .limit = {}}) == verdict);
        WaitHistory history;
        for (int i = 0; i < 9; ++i) history.add(chance.look());
        history.straggler();
    }
}

}  // namespace ddprun
