#include "rendezvous/job/failure.hpp"
#include "rendezvous/text/number_text.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("rank ranges: neighbours become one") {
    const struct {
        std::vector<int> ranks;
        std::string text;
    } rows[] = {
        {{}, ""}, {{4}, "4"}, {{4, 5}, "4-5"}, {{0, 2, 1, 7, 5, 6}, "0-2,5-7"}, {{3, 3, 1, 3}, "1,3"},
    };
    for (const auto& row : rows) CHECK(number_set_text(ranges_of(row.ranks)) == row.text);
}

}  // namespace ddprun
