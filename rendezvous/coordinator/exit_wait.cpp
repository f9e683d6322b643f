#include "rendezvous/coordinator/exit_wait.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/system/check.hpp"

namespace ddprun::inline job {
namespace {

int count_of(const RankRange& range) { return range.last - range.first + 1; }

}  // namespace

StillRunning still_running_of(int round, const std::vector<WorkerStatus>& workers) {
    StillRunning answer{.round = round, .count = 0, .ranks = {}, .pid = 0};
    std::vector<int> ranks;
    int lowest = 0;
    for (const WorkerStatus& worker : workers) {
        if (worker.exit_code) continue;
        if (ranks.empty() || worker.rank < lowest) {
            lowest = worker.rank;
            answer.pid = worker.pid;
        }
        ranks.push_back(worker.rank);
    }
    answer.count = static_cast<int>(ranks.size());
    answer.ranks = ranges_of(std::move(ranks));
    if (answer.ranks.size() > kMaxRangesInMessage) answer.ranks.resize(kMaxRangesInMessage);
    return answer;
}

void ExitWait::round_begins() {
    state_ = State::nobody_ended;
    deadline_.reset();
    running_.clear();
    unanswered_.clear();
}

void ExitWait::ended(int rank, TimePoint now) {
    if (!options_ || state_ != State::nobody_ended) return;
    state_ = State::waiting;
    first_ended_ = rank;
    deadline_ = now + options_->wait;
}

void ExitWait::ask(std::map<int, StillRunning> all, TimePoint now) {
    check(state_ == State::waiting, "the ranks are asked for once");
    state_ = State::asking;
    deadline_ = now + kAnswerTimeout;
    for (const auto& [node_rank, ranks] : all) unanswered_.insert(node_rank);
    running_ = std::move(all);
}

bool ExitWait::answer(int node_rank, const StillRunning& answer) {
    if (state_ != State::asking || unanswered_.erase(node_rank) == 0) return false;
    StillRunning& known = running_.at(node_rank);
    const RankRange own = known.ranks.front();
    const int most = known.count;
    known = {.round = answer.round, .count = 0, .ranks = {}, .pid = answer.pid};
    int next = own.first;
    for (const RankRange& range : answer.ranks) {
        if (range.first < next || range.last < range.first || range.last > own.last) continue;
        known.ranks.push_back(range);
        known.count += count_of(range);
        next = range.last + 1;
    }
    if (!known.ranks.empty()) known.count = std::clamp(answer.count, known.count, most);
    return unanswered_.empty();
}

std::optional<std::string> ExitWait::conclude() {
    state_ = State::concluded;
    deadline_.reset();
    int count = 0;
    std::vector<RankRange> shown;
    for (const auto& [node_rank, answer] : running_) {
        count += answer.count;
        for (const RankRange& range : answer.ranks) {
            if (!shown.empty() && shown.back().last + 1 == range.first) {
                shown.back().last = range.last;
            } else if (shown.size() < kMaxRangesShown) {
                shown.push_back(range);
            }
        }
    }
    if (count == 0) return std::nullopt;
    int named = 0;
    for (const RankRange& range : shown) named += count_of(range);
    const int unnamed = std::max(0, count - named);
    return fmt::format("{} ended with 0, {} {} still running: {}{} (--exit-wait {})", since(), count,
                       count == 1 ? "rank is" : "ranks are", number_set_text(shown),
                       unnamed > 0 ? fmt::format(" and {} more", unnamed) : "", options_->text);
}

int ExitWait::first_node() const {
    const auto first = std::find_if(running_.begin(), running_.end(),
                                    [](const auto& entry) { return entry.second.count > 0; });
    check(first != running_.end(), "nobody still runs");
    return first->first;
}

Failure ExitWait::failure() const {
    const StillRunning& first = running_.at(first_node());
    Failure failure{.kind = Failure::Kind::overdue};
    failure.rank = first.ranks.front().first;
    failure.pid = first.pid;
    failure.exit_code = kExitOverdue;
    failure.message =
        fmt::format("still running {} had ended with 0 (--exit-wait {})", since(), options_->text);
    return failure;
}

// "30 s after rank 0", to be followed by what that rank did.
std::string ExitWait::since() const {
    return fmt::format("{} s after rank {}", static_cast<double>(options_->wait.count()) / 1000,
                       first_ended_);
}

}  // namespace ddprun::inline job
