#include "launcher/rank_set.hpp"

#include <random>
#include <set>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::string members(const std::string& text) {
    const auto parsed = parse_rank_set(text);
    if (const auto* wrong = std::get_if<std::string>(&parsed)) return *wrong;
    std::string found;
    for (int rank = 0; rank < 20; ++rank) {
        if (std::get<RankSet>(parsed).contains(rank))
            found += (found.empty() ? "" : " ") + std::to_string(rank);
    }
    return found;
}

}  // namespace

TEST_CASE("rank sets: numbers, ranges and everything") {
    CHECK(members("0") == "0");
    CHECK(members("0,8-11") == "0 8 9 10 11");
    CHECK(members("3,1, 1 - 2 ,7") == "1 2 3 7");
    CHECK(members("5-5") == "5");
    CHECK(members("18-99999999") == "18 19");
    CHECK(members("*") == "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19");
    CHECK(RankSet::all().contains(kMaxRankNumber));
    CHECK_FALSE(RankSet::all().contains(-1));
    CHECK_FALSE(RankSet().contains(0));
}

TEST_CASE("rank sets: what is wrong is said") {
    for (const std::string text : {"", ",", "1,", ",1", "x", "1-", "-1", "1--2", "1-2-3", "0x1", "1 2", "+1",
                                   "*,1", "100000000", "99999999999999999999"}) {
        INFO(text);
        CHECK_THAT(members(text), Catch::Contains("is no rank (0, 1, ...) and no range (8-15)"));
    }
    CHECK(members("1,8-x") == "'8-x' is no rank (0, 1, ...) and no range (8-15)");
    CHECK(members("4-2") == "the range '4-2' is empty");
}

TEST_CASE("rank sets: what was written is what is contained") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int repeat = 0; repeat < 200; ++repeat) {
        std::set<int> expected;
        std::string text;
        const int parts = 1 + static_cast<int>(random() % 6);
        for (int part = 0; part < parts; ++part) {
            const int first = static_cast<int>(random() % 40), last = first + static_cast<int>(random() % 8);
            text += (part == 0 ? "" : ",") + std::to_string(first);
            if (last > first || random() % 2 == 0) text += "-" + std::to_string(last);
            for (int rank = first; rank <= last; ++rank) expected.insert(rank);
        }
        INFO(text);
        const auto set = std::get<RankSet>(parse_rank_set(text));
        for (int rank = 0; rank < 50; ++rank) REQUIRE(set.contains(rank) == (expected.count(rank) == 1));
    }
}

}  // namespace ddprun
