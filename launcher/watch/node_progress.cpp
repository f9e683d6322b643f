#include "launcher/watch/node_progress.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
inline namespace launch {
namespace {

std::uint64_t per_second(std::uint64_t before, std::uint64_t after, std::chrono::milliseconds time) {
    const auto passed = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 1));
    return after <= before ? 0 : (after - before) * 1000 / passed;
}

constexpr std::string_view kWords[] = {"output",           "the progress file",       "a line of output",
                                       "a call",           "traffic between ranks",   "the disk's work",
                                       "reads and writes", "a new child of a worker", "children's work",
                                       "a wait that ended"};

}  // namespace

std::vector<ProgressSign> NodeProgress::take(NodeSample sample, Deadline now) {
    samples_.push_back({now, std::move(sample)});
    while (samples_.size() > 2 && now - samples_[1].when >= kLeastTime) samples_.pop_front();
    std::vector<ProgressSign> signs;
    own_.clear();
    if (samples_.size() == 1) return signs;
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(now - samples_.front().when);
    const NodeSample &first = samples_.front().sample, &last = samples_.back().sample;
    if (first.progress_file != last.progress_file) signs.push_back(ProgressSign::progress_file);
    for (const auto& [rank, after] : last.ranks) {
        const auto found = first.ranks.find(rank);
        if (found == first.ranks.end()) continue;
        const RankMeasure& before = found->second;
        const auto of_rank = signs_between(before, after, time);
        signs.insert(signs.end(), of_rank.begin(), of_rank.end());
        own_[rank] = {.read_per_s = per_second(before.read_bytes, after.read_bytes, time),
                      .written_per_s = per_second(before.written_bytes, after.written_bytes, time),
                      .children = std::any_of(of_rank.begin(), of_rank.end(), [](ProgressSign sign) {
                          return sign == ProgressSign::child || sign == ProgressSign::busy_children;
                      })};
    }
    return signs;
}

std::chrono::milliseconds sampling_pause(std::chrono::milliseconds limit) {
    return std::clamp<std::chrono::milliseconds>(limit / 8, std::chrono::milliseconds(250),
                                                 std::chrono::seconds(5));
}

std::string_view words_of(ProgressSign sign) { return kWords[static_cast<std::size_t>(sign)]; }

}  // namespace launch
}  // namespace ddprun
