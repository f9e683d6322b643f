#include <functional>

#include "launcher/verdict/judge.hpp"
#include "launcher/verdict/progress_clock.hpp"
#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Look = std::vector<Observation>;

Observation writing(Observation one, std::uint64_t per_second) {
    one.own.written_per_s = per_second;
    return one;
}

struct Quiet {
    const char* name;
    std::function<Look(const Observed&)> look;
    VerdictKind kind;
    const char* sentence;
};

// Looks at jobs that are past the limit and do not hang.
const Quiet kQuiet[] = {
    {"all compute for long",
     [](auto& made) {
         return Look{made.away(0, WaitKind::running), made.away(1, WaitKind::running),
                     made.away(2, WaitKind::running), made.away(3, WaitKind::running)};
     },
     VerdictKind::none, ""},
    {"a checkpoint is written",
     [](auto& made) {
         return Look{writing(made.away(0, WaitKind::file, "save"), 40 << 20), made.meets(1, "barrier"),
                     made.meets(2, "barrier"), made.meets(3, "barrier")};
     },
     VerdictKind::waiting, "ranks 1-3 wait for rank 0 (gpu06), which writes 40.0 MiB/s in save"},
    {"the compiler runs as a child",
     [](auto& made) {
         Observation one = made.away(2, WaitKind::child, "compile", "process 77 (cc1plus)");
         one.own.children = true;
         return Look{made.meets(0), made.meets(1), one, made.meets(3)};
     },
     VerdictKind::waiting, "ranks 0-1,3 wait for rank 2 (gpu07), which has children that compute in compile"},
    {"two read",
     [](auto& made) {
         Look look{made.away(0, WaitKind::file), made.away(1, WaitKind::running),
                   made.meets(2, "all_reduce", 140, {0, 1}), made.meets(3)};
         look[0].own.read_per_s = look[1].own.read_per_s = 2 << 20;
         return look;
     },
     VerdictKind::waiting, "ranks 2-3 wait for ranks 0-1, of which rank 0 (gpu06) reads 2.0 MiB/s"},
    {"a server is idle",
     [](auto& made) {
         Observation first = made.away(0, WaitKind::socket, "serve", "connections to 0.0.0.0:80");
         first.wait->is_listening = true;
         return Look{first, made.away(1, WaitKind::poll), made.away(2, WaitKind::poll),
                     made.away(3, WaitKind::poll)};
     },
     VerdictKind::none, ""},
    {"all accept",
     [](auto& made) {
         Look look;
         for (int rank = 0; rank < 4; ++rank) {
             look.push_back(made.away(rank, WaitKind::socket));
             look.back().wait->is_listening = true;
         }
         return look;
     },
     VerdictKind::none, ""},
    {"all sleep",
     [](auto& made) {
         return Look{made.away(0, WaitKind::sleep), made.away(1, WaitKind::sleep)};
     },
     VerdictKind::none, ""},
    {"shells wait for their children",
     [](auto& made) {
         return Look{made.away(0, WaitKind::child), made.away(1, WaitKind::child)};
     },
     VerdictKind::none, ""},
    {"main threads wait for others of theirs",
     [](auto& made) {
         return Look{made.away(0, WaitKind::lock), made.away(1, WaitKind::lock)};
     },
     VerdictKind::none, ""},
    {"some have ended, the rest compute",
     [](auto& made) {
         return Look{made.ended(0), made.away(1, WaitKind::running), made.ended(2)};
     },
     VerdictKind::none, ""},
    {"all have ended",
     [](auto& made) {
         return Look{made.ended(0), made.ended(1, 1)};
     },
     VerdictKind::none, ""},
    {"nobody is there", [](auto&) { return Look{}; }, VerdictKind::none, ""},
    {"one of few that do nothing writes",
     [](auto& made) {
         return Look{made.away(0, WaitKind::running), made.away(1, WaitKind::running),
                     writing(made.away(2, WaitKind::file), 1 << 20)};
     },
     VerdictKind::none, ""},
};

using std::chrono::seconds;

// A rank sleeps and all others wait; seen `quiet` after the last sign.
HangVerdict at(seconds quiet, seconds limit) {
    const Observed made(Program::gloo);
    return judge({made.meets(0), made.meets(1), made.away(2, WaitKind::sleep), made.meets(3)},
                 {.quiet = quiet, .limit = limit});
}

}  // namespace

TEST_CASE("verdict: jobs that are quiet and do not hang") {
    for (const Quiet& one : kQuiet) {
        for (const Program program : kPrograms) {
            const HangVerdict verdict =
                judge(one.look(Observed(program)), {.quiet = seconds(900), .limit = seconds(30)});
            INFO(one.name << ", " << name_of(program) << ": " << verdict.sentence);
            CHECK(name_of_value(verdict.kind) == name_of_value(one.kind));
            CHECK(verdict.sentence.find(one.sentence) != std::string::npos);
            CHECK((!verdict.suspects.empty()) == (one.kind == VerdictKind::waiting));
        }
    }
}

TEST_CASE("verdict: before the limit nothing hangs, and the sentence says which ranks wait") {
    const HangVerdict early = at(seconds(29), seconds(30));
    CHECK(early.kind == VerdictKind::none);
    CHECK(early.suspects == std::vector<int>{2});
    CHECK(early.sentence.find(
              "rank 2 (gpu07) sleeps in next_batch (data.py:88); ranks 0-1,3 wait in all_reduce") == 0);
    CHECK(at(seconds(30), seconds(30)).kind == VerdictKind::hang);
}

TEST_CASE("verdict: a rank in its collector is computing, and is told to collect") {
    const Observed made(Program::gloo);
    Observation one = made.away(3, WaitKind::running);
    one.is_collecting = true;
    const HangVerdict verdict = judge({made.meets(0), made.meets(1), made.meets(2), one}, {});
    REQUIRE(verdict.evidence.size() == 1);
    CHECK(verdict.evidence[0] == "rank 3: collects garbage");
}

TEST_CASE("verdict: a sleep before the first progress is within the first budget") {
    ProgressClock clock(hang_budgets(seconds(30), {}));
    const Deadline start{};
    clock.begin(start);
    CHECK(clock.look(start + seconds(599)) == ClockAction::none);
    CHECK(at(std::chrono::duration_cast<seconds>(clock.age(start + seconds(599))),
             std::chrono::duration_cast<seconds>(clock.budget()))
              .kind == VerdictKind::none);
}

}  // namespace ddprun
