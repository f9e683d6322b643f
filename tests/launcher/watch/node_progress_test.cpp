#include "launcher/watch/node_progress.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Signs = std::vector<ProgressSign>;

const Deadline kFirst = Deadline() + 1h;

NodeSample sample_of(const RankMeasure& measure, std::string progress_file = {}) {
    return {{{4, measure}}, std::move(progress_file)};
}

}  // namespace

TEST_CASE("node progress: a first sample has no signs, nor one that is the same") {
    NodeProgress progress;
    CHECK(progress.take(sample_of({.output_bytes = 7}), kFirst).empty());
    CHECK(progress.take(sample_of({.output_bytes = 7}), kFirst + 250ms).empty());
    CHECK(progress.take(sample_of({.output_bytes = 8}), kFirst + 500ms) == Signs{ProgressSign::output});
}

TEST_CASE("node progress: rates are over a second at least, so that keepalives are none") {
    NodeProgress progress;
    RankMeasure measure;
    for (int i = 0; i < 40; ++i) {
        if (i % 4 == 0) measure.traffic_bytes += 400;  // at once, each second
        const auto signs = progress.take(sample_of(measure), kFirst + i * 250ms);
        if (i > 4) CHECK(signs.empty());
    }
    measure.traffic_bytes += 600;
    CHECK(progress.take(sample_of(measure), kFirst + 10s) == Signs{ProgressSign::traffic});
    CHECK(progress.take(sample_of(measure), kFirst + 12s).empty());
}

TEST_CASE("node progress: the progress file is a sign also where no rank runs, and a new rank is none") {
    NodeProgress progress;
    CHECK(progress.take({{}, "a"}, kFirst).empty());
    CHECK(progress.take(sample_of({.output_bytes = 7}, "a"), kFirst + 1s).empty());
    CHECK(progress.take({{}, "b"}, kFirst + 2s) == Signs{ProgressSign::progress_file});
}

TEST_CASE("node progress: what a rank gets on with by itself") {
    NodeProgress progress;
    progress.take(sample_of({.read_bytes = 1'000, .written_bytes = 5'000, .children = 1}), kFirst);
    progress.take(sample_of({.read_bytes = 500, .written_bytes = 9'000, .children = 2}), kFirst + 2s);
    CHECK(progress.own().at(4) == OwnProgress{.read_per_s = 0, .written_per_s = 2'000, .children = true});
}

TEST_CASE("node progress: ranks are measured eight times within the limit, within bounds") {
    CHECK(sampling_pause(8s) == 1s);
    CHECK(sampling_pause(1s) == 250ms);
    CHECK(sampling_pause(1h) == 5s);
    CHECK(words_of(ProgressSign::woken) == "a wait that ended");
    CHECK(words_of(ProgressSign::output) == "output");
}

}  // namespace ddprun
