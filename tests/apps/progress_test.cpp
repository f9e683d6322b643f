#include "apps/train_digits/progress.hpp"

#include <algorithm>
#include <sstream>
#include <string>

#include "apps/train_digits/agreement.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::string shown(ProgressStyle style, int epochs, std::size_t steps) {
    std::ostringstream out;
    Progress progress(out, style, epochs, steps);
    for (int epoch = 0; epoch < epochs; ++epoch) {
        for (std::size_t step = 0; step < steps; ++step) progress.step_done(epoch, step);
        progress.epoch_done(epoch, {.loss = 1.5 / (epoch + 1), .accuracy = 0.25});
    }
    return out.str();
}

TEST_CASE("into a file each epoch is one plain line", "[progress]") {
    CHECK(shown(ProgressStyle::lines, 2, 100) ==
          "epoch 1/2  loss 1.500000  accuracy 0.2500\n"
          "epoch 2/2  loss 0.750000  accuracy 0.2500\n");
    CHECK(shown(ProgressStyle::lines, 10, 1).starts_with("epoch  1/10  loss 1.5"));
    CHECK(shown(ProgressStyle::none, 10, 1).empty());
}

TEST_CASE("on a terminal the bar grows in place and leaves the epoch's line", "[progress]") {
    CHECK(shown(ProgressStyle::bar, 1, 2) ==
          "\r\x1b[Kepoch 1/1  [###############...............]"
          "\r\x1b[Kepoch 1/1  [##############################]"
          "\r\x1b[Kepoch 1/1  loss 1.500000  accuracy 0.2500\n");
    const std::string long_run = shown(ProgressStyle::bar, 3, 100000);
    CHECK(std::count(long_run.begin(), long_run.end(), '\r') == 3 * (static_cast<int>(kBarCells) + 1));
    CHECK(std::count(long_run.begin(), long_run.end(), '\n') == 3);
}

TEST_CASE("dissenting ranks are those without the most common value", "[agreement]") {
    using Values = std::vector<std::int64_t>;
    struct Row {
        Values values;
        std::vector<int> dissenting;
    };
    const std::vector<Row> rows = {
        {{5}, {}},     {{5, 5, 5, 5}, {}},     {{5, 5, -1, 5}, {2}}, {{9, 5, 5, 5}, {0}},    {{1, 2}, {1}},
        {{2, 1}, {1}}, {{1, 2, 2, 1}, {1, 2}}, {{1, 2, 3}, {1, 2}},  {{7, 1, 2, 1}, {0, 2}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.values);
        CHECK(dissenting_ranks(row.values) == row.dissenting);
    }
}

TEST_CASE("ranks are named in words, many of them shortened", "[agreement]") {
    using Ranks = std::vector<int>;
    CHECK(name_ranks(Ranks{3}) == "rank 3");
    CHECK(name_ranks(Ranks{1, 3}) == "ranks 1 and 3");
    CHECK(name_ranks(Ranks{1, 2, 5}) == "ranks 1, 2 and 5");
    CHECK(name_ranks(Ranks{0, 1, 2, 3, 4, 5, 6, 7}) == "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
    CHECK(name_ranks(Ranks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace ddprun
