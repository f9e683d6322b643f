#include "launcher/verdict/straggler.hpp"

#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Rank 2 computes; the others wait in `waits` of ten looks, each in a further call.
WaitHistory history_of(int looks, int waits, int of_rank_2 = 0, bool get_on = true) {
    const Observed made(Program::own_backend);
    WaitHistory history;
    for (int i = 0; i < looks; ++i) {
        std::vector<Observation> look;
        for (int rank = 0; rank < 4; ++rank) {
            const int share = rank == 2 ? of_rank_2 : waits;
            const auto call = static_cast<std::uint64_t>(get_on ? 100 + i : 100);
            look.push_back(i % 10 < share ? made.meets(rank, "all_reduce", 140, {}, call)
                                          : made.away(rank, WaitKind::running, "attention"));
        }
        history.add(look);
    }
    return history;
}

}  // namespace

TEST_CASE("straggler: one for which the others wait most of their time, and get on in between") {
    const auto verdict = history_of(20, 7, 1).straggler();
    REQUIRE(verdict);
    CHECK(verdict->kind == VerdictKind::straggler);
    CHECK(verdict->suspects == std::vector<int>{2});
    CHECK(verdict->waiting == std::vector<int>{0, 1, 3});
    CHECK(verdict->sentence == "ranks 0-1,3 wait 70 % of their time for rank 2 (gpu07)");
    REQUIRE(verdict->evidence.size() == 2);
    CHECK(verdict->evidence[0] == "20 looks; rank 2 waits 10 % at most");
    CHECK(verdict->evidence[1] == "rank 2 runs in attention (data.py:88)");
    CHECK(*history_of(20, 7, 1).waiting_ratio(0) == Approx(0.7));
}

TEST_CASE("straggler: by the shares of section 5") {
    CHECK(history_of(10, 6, 3).straggler());
    CHECK(!history_of(10, 5, 0).straggler());
    CHECK(!history_of(10, 10, 4).straggler());
    CHECK(!history_of(10, 10, 0, false).straggler());  // these hang
    CHECK(!history_of(10, 3, 10).straggler());         // most are slow: that is no minority
    CHECK(!history_of(10, 0, 0).straggler());
    CHECK(!history_of(10, 10, 10).straggler());
}

TEST_CASE("straggler: never by few looks") {
    CHECK(!history_of(7, 10).straggler());
    CHECK(!history_of(7, 10).waiting_ratio(0));
    CHECK(history_of(8, 10).straggler());
    CHECK(!history_of(8, 10).waiting_ratio(9));
    CHECK(!WaitHistory().straggler());
}

TEST_CASE("straggler: with other ranks the history begins anew, and old looks are forgotten") {
    WaitHistory history = history_of(8, 10);
    const Observed made(Program::own_backend);
    history.add({made.meets(0), made.meets(1), made.ended(2), made.meets(3)});
    CHECK(!history.waiting_ratio(0));

    WaitHistory long_one = history_of(10, 0);
    for (std::size_t i = 0; i < WaitHistory::kMostLooks; ++i)
        long_one.add({made.meets(0, "all_reduce", 140, {}, i), made.meets(1, "all_reduce", 140, {}, i),
                      made.away(2, WaitKind::sleep), made.meets(3, "all_reduce", 140, {}, i)});
    CHECK(*long_one.waiting_ratio(0) == Approx(1.0));
}

}  // namespace ddprun
