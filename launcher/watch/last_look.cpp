#include "launcher/watch/last_look.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/verdict/doings.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/job/time_out.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortLook{20};
// So long a thread is waited for that still reads a worker which has ended.
constexpr milliseconds kLongestLeave{50};
// What a rank has raised longer ago has not ended it.
constexpr std::chrono::seconds kRaisedRecently{10};

// What the thread and the agent have in common. The thread may be held by the kernel, for a worker that is
// itself held there: then it goes on alone, and nothing waits for it.
class Reading {
  public:
    Reading(RankLooker looker, LookScope scope, std::function<void()> done)
        : looker_(std::move(looker)), scope_(std::move(scope)), done_(std::move(done)) {}

    void run() {
        looker_(scope_, is_cancelled_, [this](const Observation& one) {
            const std::lock_guard lock(mutex_);
            if (!is_cancelled_) seen_.push_back(one);
        });
        const std::lock_guard lock(mutex_);
        is_over_ = true;
        if (done_) done_();
        over_.notify_all();
    }

    // Returns what was read so far; nothing more is.
    std::vector<Observation> take() {
        const std::lock_guard lock(mutex_);
        is_cancelled_ = true;
        return std::move(seen_);
    }

    // Returns whether the thread is about to end; nothing of the agent is touched any more.
    bool leave() {
        std::unique_lock lock(mutex_);
        is_cancelled_ = true;
        done_ = nullptr;
        return over_.wait_for(lock, kLongestLeave, [this] { return is_over_; });
    }

  private:
    const RankLooker looker_;
    const LookScope scope_;
    std::atomic<bool> is_cancelled_{false};
    std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    std::function<void()> done_;
    std::vector<Observation> seen_;
};

// Returns the worker of which the last words may name a time-out; nullptr where it is none of this node's, or
// a signal ended it that no program sends itself.
const WorkerStatus* speaker_of(const AgentStatus& node, const Failure& failure) {
    const auto worker = std::find_if(node.workers.begin(), node.workers.end(), [&](const WorkerStatus& one) {
        return one.rank == reporter_of(failure) && one.exit_code;
    });
    const bool has_ended_itself = failure.signal == 0 || failure.signal == SIGABRT;
    return worker == node.workers.end() || !has_ended_itself ? nullptr : &*worker;
}

class LastLook final : public Feature {
  public:
    explicit LastLook(RankLooker looker) : looker_(std::move(looker)) {}

    void began(AgentControls& agent) override {
        agent_ = &agent;
        timer_.emplace(agent.executor());
    }
    void learnt(const AgentNews& news) override {
        const auto* ended = std::get_if<WorkerEnded>(&news);
        if (ended != nullptr && ended->end.manner == RankEnd::Manner::failed)
            failing_.insert(ended->end.rank);
    }
    void round_begins(const RoundReady&, RoundAdditions&) override {
        seen_first_.clear();
        seen_later_.clear();
        failing_.clear();
    }
    bool before_stop(const StopCause& cause, const GoOn& go_on) override;
    void round_over() override { leave(); }
    void told_gone(WorkersGone& gone) override;
    void agent_leaves() override {
        leave();
        timer_.reset();
        agent_ = nullptr;
    }

  private:
    // Has the look end soon, unless the failed worker's last words name a time-out.
    void read_words(const WorkerStatus& failed);
    // Ends the look at the latest so long after its begin.
    void limit(milliseconds longest);
    void start(const AgentStatus& node, milliseconds longest);
    // Keeps what was read, and lets the signal pass.
    void look_over();
    void note_raised();
    void leave();
    void tell(int round, bool is_half_over, const std::vector<RanksDoing>& ranks);

    const RankLooker looker_;
    AgentControls* agent_ = nullptr;
    std::optional<boost::asio::steady_timer> timer_;
    std::shared_ptr<Reading> reading_;
    std::thread thread_;
    int look_ = 0;  // numbers the looks
    std::chrono::steady_clock::time_point begun_;
    GoOn go_on_;  // while a look is under way
    bool is_half_over_ = false;
    std::vector<Observation> seen_first_;
    std::vector<Observation> seen_later_;
    std::set<int> failing_;
    Alive alive_;
};

bool LastLook::before_stop(const StopCause& cause, const GoOn& go_on) {
    const auto longest = look_time(cause);
    if (!longest || agent_ == nullptr) return false;
    leave();
    const AgentStatus node = agent_->status();
    const bool is_over = std::all_of(node.workers.begin(), node.workers.end(),
                                     [](const WorkerStatus& worker) { return worker.exit_code.has_value(); });
    if (is_over) return false;
    ++look_;
    is_half_over_ = cause.is_half_over;
    go_on_ = go_on;
    const WorkerStatus* failed = *longest < kLastLookTime ? speaker_of(node, *cause.failure) : nullptr;
    start(node, failed == nullptr ? *longest : kLastLookTime);
    if (failed != nullptr) read_words(*failed);
    return go_on_ != nullptr;
}

void LastLook::read_words(const WorkerStatus& failed) {
    agent_->pump().last_lines(failed.local_rank,
                              alive_.guard([this, look = look_](const std::vector<std::string>& lines) {
                                  const bool gave_up = std::any_of(lines.begin(), lines.end(), is_time_out);
                                  if (go_on_ && look == look_ && !gave_up) limit(kShortLook);
                              }));
}

void LastLook::limit(milliseconds longest) {
    timer_->expires_at(begun_ + longest);
    timer_->async_wait(alive_.guard([this, look = look_](const boost::system::error_code& cancelled) {
        if (!cancelled && look == look_) look_over();
    }));
}

void LastLook::start(const AgentStatus& node, milliseconds longest) try {
    begun_ = std::chrono::steady_clock::now();
    limit(longest);
    LookScope scope;
    scope.node = node;
    scope.limit = longest;
    auto over = alive_.guard([this, look = look_] {
        if (look == look_) look_over();
    });
    reading_ = std::make_shared<Reading>(
        looker_, std::move(scope),
        [executor = agent_->executor(), over]() mutable { boost::asio::post(executor, std::move(over)); });
    thread_ = start_without_signals([reading = reading_] { reading->run(); });
} catch (const std::system_error&) {  // there is no thread left
    look_over();
}

void LastLook::look_over() {
    if (!go_on_) return;
    timer_->cancel();
    auto& seen = is_half_over_ ? seen_later_ : seen_first_;
    if (reading_) seen = reading_->take();
    note_raised();
    if (is_half_over_) {
        if (const auto told = worth_telling(doings_of(seen)); !told.empty())
            agent_->say(LogLevel::info, "left at half of the grace: " + doings_text(told));
    }
    std::exchange(go_on_, nullptr)();
}

void LastLook::note_raised() {
    for (const RaisedRank& raised : agent_->pump().raised_within(kRaisedRecently)) {
        if (raised.text.empty() || is_lost_connection(raised.text) || is_time_out(raised.text))
            failing_.insert(raised.rank);
    }
}

void LastLook::leave() {
    look_over();
    if (thread_.joinable()) reading_->leave() ? thread_.join() : thread_.detach();
    reading_ = nullptr;
}

void LastLook::told_gone(WorkersGone& gone) {
    note_raised();
    gone.others = doings_of(seen_first_, failing_);
    gone.left = doings_of(seen_later_);
    tell(gone.round, false, gone.others);
    tell(gone.round, true, gone.left);
}

void LastLook::tell(int round, bool is_half_over, const std::vector<RanksDoing>& ranks) {
    if (!worth_telling(ranks).empty()) agent_->tell(RanksSeen{round, is_half_over, ranks});
}

}  // namespace

std::optional<milliseconds> look_time(const StopCause& cause) {
    if (cause.is_half_over) return kLastLookTime;
    if (!cause.failure || cause.received != 0) return std::nullopt;
    const Failure& failure = *cause.failure;
    switch (failure.kind) {
        case Failure::Kind::worker_failed:
            if (failure.pid == 0 && failure.witness < 0) return std::nullopt;  // it was never started
            return names_time_out(failure) ? kLastLookTime : kShortLook;
        case Failure::Kind::node_lost:
        case Failure::Kind::overdue: return kLastLookTime;
        case Failure::Kind::hang:  // told by a look
        case Failure::Kind::signalled:
        case Failure::Kind::resized: break;
    }
    return std::nullopt;
}

std::unique_ptr<Feature> make_last_look_by(RankLooker looker) {
    return std::make_unique<LastLook>(std::move(looker));
}

std::unique_ptr<Feature> make_last_look(const FeatureInputs&) {
    return make_last_look_by([](const LookScope& scope, const std::atomic<bool>& is_cancelled,
                                const TellSeen& tell) { look_at_ranks(scope, is_cancelled, tell); });
}

}  // namespace launch
}  // namespace ddprun
