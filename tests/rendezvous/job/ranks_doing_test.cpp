#include "rendezvous/job/ranks_doing.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Manner = RanksDoing::Manner;

const RanksDoing kMeets{{{0, 1}}, Manner::waited, "waited in all_reduce (train.py:140)"};
const RanksDoing kSleeps{{{2, 2}}, Manner::stood, "slept in next_batch (data.py:88)"};
const RanksDoing kRuns{{{5, 6}}, Manner::other, "ran in step (train.py:9)"};

RanksDoing with_ranks(RanksDoing one, std::vector<RankRange> ranks) {
    one.ranks = std::move(ranks);
    return one;
}

}  // namespace

TEST_CASE("doings: what ranks of several nodes did alike is one, those that wait first") {
    std::vector<RanksDoing> all;
    add_doings(all, {kRuns, kSleeps, kMeets});
    add_doings(all,
               {with_ranks(kMeets, {{9, 9}}), with_ranks(kMeets, {{2, 4}}), with_ranks(kRuns, {{4, 4}})});
    CHECK(all == std::vector<RanksDoing>{with_ranks(kMeets, {{0, 4}, {9, 9}}), kSleeps,
                                         with_ranks(kRuns, {{4, 6}})});
    RanksDoing asleep = kMeets;
    asleep.manner = Manner::stood;
    add_doings(all, {asleep});
    CHECK(all.size() == 4);
}

TEST_CASE("doings: beyond the limits those that tell least are left out") {
    std::vector<RanksDoing> all;
    for (int rank = 0; rank < 20; ++rank)
        add_doings(all, {{{{rank, rank}}, Manner::other, "ran in line " + std::to_string(rank)}});
    CHECK(all.size() == kMaxDoings);
    add_doings(all, {kMeets, kSleeps});
    CHECK(all.size() == kMaxDoings);
    CHECK(all[0] == kMeets);
    CHECK(all[1] == kSleeps);
    std::vector<RanksDoing> scattered;
    for (int rank = 0; rank < 400; rank += 2) add_doings(scattered, {with_ranks(kMeets, {{rank, rank}})});
    REQUIRE(scattered.size() == 1);
    CHECK(scattered[0].ranks.size() == kMaxDoingRanges);
}

TEST_CASE("doings: where all compute, or stand somewhere, nothing is told") {
    CHECK(worth_telling({}).empty());
    CHECK(worth_telling({kRuns, kRuns}).empty());
    CHECK(worth_telling({kRuns, kSleeps}).size() == 2);
    CHECK(worth_telling({kRuns, kMeets}).size() == 2);
}

TEST_CASE("doings: the sentence") {
    const RanksDoing stopped{{{7, 7}}, Manner::stood, "was stopped in f (a.py:1)"};
    const struct {
        std::vector<RanksDoing> all;
        int gave_up;
        std::string text;
    } rows[] = {
        {{}, -1, ""},
        {{}, 3, ""},
        {{kMeets}, -1, "ranks 0-1 waited in all_reduce (train.py:140)"},
        // All wait, also for the one that gave up: none is to blame.
        {{kMeets}, 3, "ranks 0-1 waited in all_reduce (train.py:140)"},
        {{kMeets, kSleeps},
         -1,
         "rank 2 slept in next_batch (data.py:88); ranks 0-1 waited in all_reduce (train.py:140)"},
        {{kMeets, kSleeps},
         3,
         "rank 2 slept in next_batch (data.py:88); ranks 0-1 waited for it in all_reduce (train.py:140); rank "
         "3 gave up first"},
        {{kMeets, kSleeps, kRuns},
         3,
         "rank 2 slept in next_batch (data.py:88); ranks 5-6 ran in step (train.py:9); ranks 0-1 waited for "
         "them in all_reduce (train.py:140); rank 3 gave up first"},
        {{kSleeps}, 3, "rank 2 slept in next_batch (data.py:88); rank 3 gave up first"},
        {{stopped}, -1, "rank 7 was stopped in f (a.py:1)"},
        {{with_ranks(stopped, {{7, 8}})}, -1, "ranks 7-8 were stopped in f (a.py:1)"},
    };
    for (const auto& row : rows) CHECK(doings_text(row.all, row.gave_up) == row.text);
    std::vector<RanksDoing> many;
    for (int rank = 0; rank < 6; ++rank)
        many.push_back({{{rank, rank}}, Manner::stood, "slept in line " + std::to_string(rank)});
    many.push_back(with_ranks(kMeets, {{6, 6}}));
    CHECK(
        doings_text(many) ==
        "rank 0 slept in line 0; rank 1 slept in line 1; rank 2 slept in line 2; ranks 3-5 did something else; "
        "rank 6 waited in all_reduce (train.py:140)");
}

}  // namespace ddprun
