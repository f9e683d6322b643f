#include "rendezvous/coordinator/round.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/base/check.hpp"
#include "rendezvous/control/control_text.hpp"

namespace ddprun {
inline namespace job {

namespace {

int count_of(const RankRange& range) { return range.last - range.first + 1; }

}  // namespace

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

bool SignalNotices::is_news(std::uint64_t connection, int signal, TimePoint now) {
    Sent& sent = sent_[signal];
    if (now - sent.passed_on > kSameSignal) sent = {};
    if (++sent.told[connection] <= sent.count) return false;
    ++sent.count;
    sent.passed_on = now;
    return true;
}

namespace {

// The coordinator's knowledge of the node's place counts, whatever the agent says.
Failure placed_on(const JobNode& node, Failure failure) {
    failure.node_rank = node.hello.node_rank;
    failure.host = node.hello.host;
    return failure;
}

std::string loss_of(const JobNode& node, const HeartbeatTerms& heartbeats) {
    if (node.silent) return silence_text(heartbeats.limit);
    if (node.lied) return fmt::format("its agent (pid {}) said what cannot be true", node.hello.pid);
    return fmt::format("the connection to its agent (pid {}) was lost", node.hello.pid);
}

}  // namespace

Failure failure_of(const JobNode& node, const ControlMessage* message, const HeartbeatTerms& heartbeats) {
    if (message == nullptr) {
        return placed_on(node, {.kind = Failure::Kind::node_lost,
                                .exit_code = kExitUnavailable,
                                .message = loss_of(node, heartbeats)});
    }
    if (const auto* failed = std::get_if<WorkerFailed>(message)) return placed_on(node, failed->failure);
    const auto& signalled = std::get<AgentSignalled>(*message);
    return placed_on(
        node, {.kind = Failure::Kind::signalled, .signal = signalled.signal, .message = signalled.reason});
}

Failure placed_by_rank(Failure failure, const JobNodes& nodes) {
    for (const auto& [number, node] : nodes) {
        if (!node.has_rank(failure.rank)) continue;
        failure.local_rank = failure.rank - node.run.base_rank;
        return placed_on(node, std::move(failure));
    }
    return failure;
}

Round::Round(const CoordinatorOptions& options)
    : number_(options.predecessor ? options.predecessor->round : 0),
      min_uptime_(options.restarts.min_uptime),
      exit_wait_(options.exit_wait) {}

std::vector<NodeRanks> Round::begin(Roster& roster, TimePoint now) {
    if (std::exchange(has_run_, true)) ++number_;
    awaited_ = roster.nodes().size();
    start_ = now;
    progressed_ = requeue_ = false;
    failures_ = {};
    cause_.reset();
    others_.clear();
    left_.clear();
    deaths_told_ = 0;
    exit_wait_.round_begins();
    signals_.round_begins();
    std::vector<NodeShare> shares;
    for (const auto& [rank, node] : roster.nodes())
        shares.push_back({node.hello.local_world_size, node.hello.role});
    std::vector<NodeRanks> ranks = map_ranks(shares);
    for (const auto& [rank, node] : roster.nodes())
        roster.run_of(node) = {.base_rank = ranks.at(static_cast<std::size_t>(rank)).base_rank, .ends = {}};
    return ranks;
}

void Round::take_over(Failure cause, const JobNodes& nodes) {
    has_run_ = true;
    cause_ = std::move(cause);
    // How long it ran nobody knows; it shall not count against it.
    uptime_ = min_uptime_;
    failures_.tell(cause_->node_rank, *cause_);
    awaited_ = 0;
    for (const auto& [rank, node] : nodes) awaited_ += node.run.ended ? 0 : 1;
}

void Round::replace_resize(const Failure& cause) {
    if (cause_ && cause_->kind == Failure::Kind::resized) cause_ = cause;
}

Failure Round::tell(const JobNode& node, Failure failure) {
    return failures_.tell(node.hello.node_rank, std::move(failure));
}

Messages Round::stop(Failure cause, Roster& roster, TimePoint now, bool is_awaited) {
    uptime_ = std::chrono::duration_cast<std::chrono::milliseconds>(now - start_);
    cause_ = std::move(cause);
    awaited_ = 0;
    for (const auto& [rank, node] : roster.nodes()) {
        roster.run_of(node).ended = !node.connected;
        if (node.connected) ++awaited_;
    }
    return to_all(roster.nodes(), Stop{number_, *cause_, is_awaited});
}

Messages Round::suspect(const JobNode& node, const WorkerDying& dying, const JobNodes& nodes) {
    if (dying.itself && node.has_rank(dying.rank)) failures_.suspect(dying.rank);
    if (dying.life == 0 || deaths_told_ + nodes.size() > kMaxDeathsTold) return {};
    Messages out;
    for (const auto& [rank, other] : nodes) {
        if (other.key == node.key || !other.connected || other.run.ended) continue;
        out.push_back({other.connection, PeerDying{number_, dying.life}});
    }
    deaths_told_ += out.size();
    return out;
}

void Round::contend(const JobNode& node, const ControlMessage& message) {
    const auto* failed = std::get_if<WorkerFailed>(&message);
    const auto* dying = std::get_if<WorkerDying>(&message);
    const int rank = failed != nullptr ? failed->failure.rank : dying->rank;
    const bool is_end =
        failed != nullptr ? failed->failure.kind == Failure::Kind::worker_failed : dying->itself;
    if (is_end && node.has_rank(rank)) failures_.contend(rank);
}

void Round::find_cause(const JobNodes& nodes) {
    if (auto first = failures_.first([&nodes](int rank) { return end_of_rank(nodes, rank); }))
        cause_ = std::move(first);
    if (!cause_) return;
    cause_->others = worth_telling(others_);
    cause_->left = worth_telling(left_);
}

bool Round::count_down(NodeRun& run) {
    if (std::exchange(run.ended, true)) return false;
    return awaited_ > 0 && --awaited_ == 0;
}

bool Round::node_succeeded(NodeRun& run) {
    run.all_zero = run.is_gone = true;
    return count_down(run);
}

// Its agent has gathered more of the first failure since it was told; nothing if the node itself was lost.
bool Round::node_gone(const JobNode& node, NodeRun& run, const WorkersGone* gone) {
    if (gone != nullptr) {
        run.all_zero = gone->all_zero;
        run.is_gone = true;
        progressed_ = progressed_ || gone->progressed;
        add_doings(others_, gone->others);
        add_doings(left_, gone->left);
        if (gone->failure) failures_.tell(node.hello.node_rank, placed_on(node, *gone->failure));
    }
    return count_down(run);
}

void Round::keep_ends(const JobNode& node, NodeRun& run, const RankEnds& ends) const {
    for (const RankEnd& end : ends.ends) {
        if (run.ends.size() == static_cast<std::size_t>(node.hello.local_world_size)) return;
        run.ends.push_back(end);
        run.ends.back().node_rank = node.hello.node_rank;
        run.ends.back().host = node.hello.host;
    }
}

bool Round::note_signal(std::uint64_t from, const NoticeSignal& notice, TimePoint now) {
    requeue_ = requeue_ || notice.requeue;
    return signals_.is_news(from, notice.signal, now);
}

Messages Round::ask_who_runs(const JobNodes& nodes, TimePoint now) {
    std::map<int, StillRunning> asked;
    Messages out;
    for (const auto& [rank, node] : nodes) {
        if (!node.connected || node.run.ended) continue;
        const int workers = node.hello.local_world_size;
        const int first = node.run.base_rank;
        asked[rank] = {.round = number_, .count = workers, .ranks = {{first, first + workers - 1}}, .pid = 0};
        out.push_back({node.connection, WhoRuns{number_}});
    }
    exit_wait_.ask(std::move(asked), now);
    return out;
}

bool Round::note_running(const JobNode& node, const StillRunning& running) {
    return exit_wait_.answer(node.hello.node_rank, running);
}

std::optional<std::string> Round::end_exit_wait(const JobNodes& nodes) {
    for (const auto& [rank, node] : nodes) {
        if (node.run.ended) exit_wait_.answer(rank, {});
    }
    return exit_wait_.conclude();
}

std::optional<int> Round::overdue_node() const {
    return exit_wait_.kills() ? std::optional(exit_wait_.first_node()) : std::nullopt;
}

Failure Round::overdue_failure(const JobNode& node) const {
    Failure failure = placed_on(node, exit_wait_.failure());
    failure.local_rank = failure.rank - node.run.base_rank;
    return failure;
}

}  // namespace job
}  // namespace ddprun
