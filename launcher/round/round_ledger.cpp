#include "launcher/round/round_ledger.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/raised_words.hpp"

namespace ddprun {
inline namespace launch {

RoundLedger::RoundLedger(int node_rank, std::string host, RoundReady place, std::string progress)
    : node_rank_(node_rank),
      host_(std::move(host)),
      place_(std::move(place)),
      progress_before_(std::move(progress)) {}

std::vector<WorkerDying> RoundLedger::see(std::vector<Death> deaths) {
    std::stable_partition(deaths.begin(), deaths.end(), [](const Death& death) { return death.is_running; });
    std::vector<WorkerDying> seen;
    for (const Death& death : deaths) {
        const int rank = place_.base_rank + death.local_rank;
        const bool itself = death.is_running && death.is_ending;
        if (itself && !settled_) failures_.suspect(rank);
        seen.push_back({.round = place_.round, .rank = rank, .life = death.life, .itself = itself});
    }
    return seen;
}

std::vector<int> RoundLedger::settle(const std::vector<int>& ending) {
    std::vector<int> found;
    if (std::exchange(settled_, true)) return found;
    for (const int rank : ending) {
        if (failures_.is_suspect(rank)) continue;
        failures_.contend(rank);
        found.push_back(rank);
    }
    return found;
}

void RoundLedger::note_raised(std::vector<RaisedRank> raised) {
    raised_ = std::move(raised);
    std::vector<int> ranks;
    for (const RaisedRank& one : raised_) ranks.push_back(one.rank);
    failures_.note_raised(std::move(ranks));
}

std::vector<int> RoundLedger::awaited_for(const Failure& failure) const {
    std::vector<int> ranks;
    for (const RaisedRank& one : raised_) {
        if (is_lost_connection(one.text)) continue;
        if (one.rank == failure.rank) break;
        if (end_of(one.rank) == nullptr) ranks.push_back(one.rank);
    }
    return ranks;
}

bool RoundLedger::has_lost_connection(int rank) const {
    return std::any_of(raised_.begin(), raised_.end(), [rank](const RaisedRank& one) {
        return one.rank == rank && is_lost_connection(one.text);
    });
}

bool RoundLedger::is_explained() const {
    return std::any_of(raised_.begin(), raised_.end(), [this](const RaisedRank& one) {
        return !is_lost_connection(one.text) && end_of(one.rank) != nullptr;
    });
}

void RoundLedger::stop(int signal) {
    if (stop_signal_ == 0) stop_signal_ = signal;
}

Failure RoundLedger::refused(const WorkerStartFailure& refused, std::int64_t unix_time_ms) {
    refused_ = settled_ = true;
    Failure failure = failure_of(refused.rank, refused.local_rank, 0, unix_time_ms);
    failure.exit_code = refused.failure.exit_code;
    failure.message = refused.failure.text;
    return failures_.tell(refused.rank, std::move(failure));
}

Failure& RoundLedger::hangs(const WorkerStatus& worker, const std::string& why, std::int64_t unix_time_ms) {
    Failure failure = failure_of(worker.rank, worker.local_rank, worker.pid, unix_time_ms);
    failure.signal = SIGKILL;  // which is all that is left
    failure.exit_code = kExitSignalBase + failure.signal;
    failure.message = why;
    return failures_.tell(worker.rank, std::move(failure));
}

RoundLedger::Entry RoundLedger::ended(const WorkerEnd& end, std::int64_t unix_time_ms) {
    RankEnd record{
        .rank = end.rank, .local_rank = end.local_rank, .pid = end.pid, .exit_code = shell_code(end.status)};
    if (const auto* signaled = std::get_if<Signaled>(&end.status)) {
        record.signal = signaled->signal;
        record.core_dumped = signaled->core_dumped;
    }
    record.wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(end.wall_time).count();
    record.outlasted_grace = end.outlasted_grace;
    // The signal may have come from us, or from the sender that told us to stop and the worker as well.
    const bool by_stop_signal = record.signal != 0 && record.signal == stop_signal_;
    const bool by_itself = failures_.is_suspect(end.rank) ||
                           (failures_.is_contender(end.rank) && !by_stop_signal) ||
                           (has_raised(end.rank) && record.signal == 0 && record.exit_code != 0 &&
                            record.exit_code != kExitSignalBase + stop_signal_);
    record.manner = end.stopped_by_us && !by_itself ? RankEnd::Manner::stopped
                    : succeeded(end.status)         ? RankEnd::Manner::succeeded
                                                    : RankEnd::Manner::failed;
    const auto is_success = [](const RankEnd& other) { return other.manner == RankEnd::Manner::succeeded; };
    Entry entry{.end = record, .is_first = !settled_};
    entry.is_first_success = is_success(record) && std::none_of(ends_.begin(), ends_.end(), is_success);
    ends_.push_back(record);
    const bool may_be_first = failures_.may_be_first(end.rank) || has_raised(end.rank);
    if (record.manner != RankEnd::Manner::failed || !may_be_first) return entry;
    Failure failure = failure_of(end.rank, end.local_rank, end.pid, unix_time_ms);
    failure.exit_code = record.exit_code;
    failure.signal = record.signal;
    failure.core_dumped = record.core_dumped;
    entry.failure = &failures_.tell(end.rank, std::move(failure));
    return entry;
}

std::vector<WorkerStatus> RoundLedger::status(std::vector<WorkerStatus> running) const {
    for (const RankEnd& end : ends_) {
        running.push_back({.rank = end.rank,
                           .local_rank = end.local_rank,
                           .pid = static_cast<pid_t>(end.pid),
                           .exit_code = end.exit_code,
                           .signal = end.signal});
    }
    std::sort(running.begin(), running.end(),
              [](const WorkerStatus& a, const WorkerStatus& b) { return a.local_rank < b.local_rank; });
    return running;
}

bool RoundLedger::all_zero() const {
    return !refused_ &&
           std::all_of(ends_.begin(), ends_.end(), [](const RankEnd& end) { return end.exit_code == 0; });
}

std::optional<Failure> RoundLedger::failure() const {
    auto first = failures_.first([](int) { return std::nullopt; });
    if (!first || !is_victim(*first)) return first;
    for (const RaisedRank& one : raised_) {
        const RankEnd* end = end_of(one.rank);
        if (one.text.empty() || is_lost_connection(one.text) || end == nullptr) continue;
        // One that ended with 0 has got over it.
        if (end->manner != RankEnd::Manner::stopped || end->exit_code == 0) continue;
        Failure failure = raised_before(*end, one.text, *first);
        failure.node_rank = node_rank_;
        failure.host = host_;
        return failure;
    }
    return first;
}

const RankEnd* RoundLedger::end_of(int rank) const {
    const auto end =
        std::find_if(ends_.begin(), ends_.end(), [rank](const RankEnd& one) { return one.rank == rank; });
    return end == ends_.end() ? nullptr : &*end;
}

bool RoundLedger::has_raised(int rank) const {
    return std::any_of(raised_.begin(), raised_.end(),
                       [rank](const RaisedRank& one) { return one.rank == rank; });
}

WorkersGone RoundLedger::gone(const std::string& progress) const {
    return {.round = place_.round,
            .all_zero = all_zero(),
            .progressed = progress != progress_before_,
            .failure = failure()};
}

Failure RoundLedger::failure_of(int rank, int local_rank, pid_t pid, std::int64_t unix_time_ms) const {
    Failure failure{.kind = Failure::Kind::worker_failed, .node_rank = node_rank_, .host = host_};
    failure.rank = rank;
    failure.local_rank = local_rank;
    failure.pid = pid;
    failure.unix_time_ms = unix_time_ms;
    return failure;
}

}  // namespace launch
}  // namespace ddprun
