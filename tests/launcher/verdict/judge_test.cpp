#include "launcher/verdict/judge.hpp"

#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Look = std::vector<Observation>;
using Ranks = std::vector<int>;

}  // namespace

TEST_CASE("verdict: the earlier call is to blame where the place is the same") {
    for (const Program program : {Program::own_backend, Program::cpp}) {
        const Observed made(program);
        const Look look{made.meets(0), made.meets(1), made.meets(2, "all_reduce", 140, {}, 41'200),
                        made.meets(3)};
        const HangVerdict verdict = judge(look, {});
        CHECK(verdict.kind == VerdictKind::hang);
        CHECK(verdict.suspects == Ranks{2});
        CHECK(verdict.waiting == Ranks{0, 1, 3});
        REQUIRE(!verdict.evidence.empty());
        CHECK(verdict.evidence[0] == "call 41,201: ranks 0-1,3; call 41,200: rank 2");
    }
}

TEST_CASE("verdict: the numbers of calls in several groups are not compared") {
    const Observed made(Program::cpp);
    Look look{made.meets(0), made.meets(1, "all_reduce", 140, {}, 7), made.away(2, WaitKind::sleep)};
    look[1].call->group = "pair";
    const HangVerdict verdict = judge(look, {});
    CHECK(verdict.suspects == Ranks{2});
    for (const std::string& line : verdict.evidence) CHECK_FALSE(line.starts_with("call "));
}

TEST_CASE("verdict: a rank that waits for one outside is in no ring") {
    const Observed made(Program::sockets);
    const Look look{made.meets(0, "all_reduce", 140, {1, 3}), made.meets(1, "all_reduce", 140, {0}),
                    made.meets(2, "all_reduce", 140, {1}), made.away(3, WaitKind::sleep)};
    CHECK(judge(look, {}).suspects == Ranks{3});
    CHECK(judge(look, {}).waiting == Ranks{0, 1, 2});
}

TEST_CASE("verdict: where one does not tell for whom it waits, all others are suspects") {
    const Observed made(Program::own_backend);
    const Look look{made.meets(0, "all_reduce", 140, {1}), made.away(1, WaitKind::sleep), made.meets(2),
                    made.away(3, WaitKind::sleep)};
    CHECK(judge(look, {}).suspects == Ranks{1, 3});
}

TEST_CASE("verdict: of a list that is cut nothing is concluded") {
    const Observed made(Program::own_backend);
    Look look{made.meets(0, "all_reduce", 140, {1, 2, 3, 4, 5, 6, 7, 8}), made.away(9, WaitKind::sleep)};
    CHECK(judge(look, {}).suspects == Ranks{9});
    look.push_back(made.away(1, WaitKind::sleep));
    CHECK(judge(look, {}).suspects == Ranks{1, 9});
    look[0].call->awaited.pop_back();
    CHECK(judge(look, {}).suspects == Ranks{1});
}

TEST_CASE("verdict: the sentence has who, what, where, and who waits where and since when") {
    const Observed made(Program::own_backend);
    Look look{made.meets(0), made.meets(1), made.meets(2),
              made.away(3, WaitKind::file, "next_batch", "/mnt/shards/0113.tar")};
    CHECK(judge(look, {}).sentence ==
          "rank 3 (gpu07) waits for a file system in next_batch (data.py:88), /mnt/shards/0113.tar; "
          "ranks 0-2 wait in all_reduce (train.py:140), call 41,201, for 31 s");
    for (Observation& one : look) one.host = "\x1b[31mevil\n";
    look[3].frames[1].function = "next\x1b[2J\r\nbatch\xff";
    const std::string sentence = judge(look, {}).sentence;
    CHECK(sentence.find_first_of("\x1b\n\r") == std::string::npos);
}

}  // namespace ddprun
