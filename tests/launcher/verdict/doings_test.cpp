#include "launcher/verdict/doings.hpp"

#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Manner = RanksDoing::Manner;

std::string text_of(const std::vector<Observation>& seen, const std::set<int>& failing = {}) {
    return doings_text(worth_telling(doings_of(seen, failing)));
}

}  // namespace

TEST_CASE("doings: of every program the late rank and those that wait, with the user's line") {
    for (const Program program : kPrograms) {
        INFO(name_of(program));
        const Observed ranks(program);
        const bool is_cpp = program == Program::cpp;
        std::vector<Observation> seen = {ranks.meets(0, "all_reduce", 140, {2}), ranks.ended(1, 1),
                                         ranks.away(2, WaitKind::sleep),
                                         ranks.meets(3, "all_reduce", 140, {2})};
        const std::string late =
            is_cpp ? "rank 2 slept in next_batch" : "rank 2 slept in next_batch (data.py:88)";
        const std::string waiting = program == Program::sockets
                                        ? "ranks 0,3 waited for rank 2 in all_reduce (ring.py:30)"
                                    : is_cpp ? "ranks 0,3 waited in all_reduce"
                                             : "ranks 0,3 waited in all_reduce (train.py:140)";
        const std::string text = text_of(seen);
        INFO(text);
        CHECK(text.starts_with(late));
        CHECK(text.find("; " + waiting) != std::string::npos);
        CHECK(text.find("rank 1") == std::string::npos);
    }
}

TEST_CASE("doings: ranks that all compute or are just being started tell nothing") {
    for (const Program program : kPrograms) {
        const Observed ranks(program);
        CHECK(text_of({ranks.away(0, WaitKind::running), ranks.away(1, WaitKind::running)}).empty());
        CHECK(text_of({ranks.away(0, WaitKind::starting), ranks.ended(1, 3)}).empty());
        CHECK(text_of({ranks.away(0, WaitKind::starting), ranks.meets(1)}).starts_with("rank 1 waited"));
        // Beside one that waits they do.
        CHECK(text_of({ranks.away(0, WaitKind::running, "step"), ranks.meets(1)})
                  .starts_with("rank 0 ran in step"));
    }
}

TEST_CASE("doings: a native rank that stands somewhere tells nothing by itself, a line of Python does") {
    CHECK(text_of({Observed(Program::cpp).away(0, WaitKind::sleep)}).empty());
    CHECK(text_of({Observed(Program::gloo).away(0, WaitKind::sleep)}) ==
          "rank 0 slept in next_batch (data.py:88)");
    Observation bare = Observed(Program::gloo).away(0, WaitKind::sleep);
    bare.frames.clear();
    CHECK(text_of({bare}).empty());
}

TEST_CASE("doings: a rank that was about to fail counts only where it waited") {
    const Observed ranks(Program::gloo);
    const std::vector<Observation> seen = {ranks.meets(0), ranks.away(1, WaitKind::running),
                                           ranks.away(2, WaitKind::sleep)};
    CHECK(text_of(seen, {0, 1}) ==
          "rank 2 slept in next_batch (data.py:88); rank 0 waited in all_reduce (train.py:140)");
}

TEST_CASE("doings: a rank that was not read is left out, and what workers choose is harmless and bounded") {
    Observation unread;
    unread.rank = 4;
    unread.why_unreadable = "process 4711: permission denied";
    CHECK(text_of({unread, Observed(Program::gloo).meets(1)}) ==
          "rank 1 waited in all_reduce (train.py:140)");
    const auto wicked =
        Observed(Program::gloo)
            .rank(0, WaitKind::file, {python("f\x1b[31m" + std::string(9000, 'x'), "/a.py", 3)},
                  "/data\n\xff" + std::string(9000, 'y'));
    const auto all = doings_of({wicked});
    REQUIRE(all.size() == 1);
    CHECK(all[0].manner == Manner::stood);
    CHECK(all[0].doing.size() <= kMaxDoingText);
    CHECK(all[0].doing.find_first_of("\x1b\n\xff") == std::string::npos);
}

}  // namespace ddprun
