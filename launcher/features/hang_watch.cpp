#include "launcher/features/hang_watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/verdict/judge.hpp"
#include "launcher/view/routes.hpp"
#include "launcher/wall_clock.hpp"
#include "launcher/watch/node_progress.hpp"
#include "launcher/watch/rank_sampler.hpp"
#include "launcher/watch/shared_looks.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {

std::string hang_line(const HangWatchOptions& options, const HangVerdict& verdict,
                      std::chrono::milliseconds quiet) {
    return fmt::format("no progress for {} s (--hang-timeout {}): {}", quiet.count() / 1000, options.text,
                       verdict.sentence);
}

Failure hang_failure(const HangVerdict& verdict, const std::vector<Observation>& seen,
                     std::int64_t unix_time_ms) {
    Failure failure{.kind = Failure::Kind::hang};
    failure.exit_code = kExitOverdue;
    failure.message = verdict.sentence;
    failure.unix_time_ms = unix_time_ms;
    if (verdict.suspects.empty()) return failure;
    failure.rank = verdict.suspects.front();
    for (const Observation& one : seen) {
        if (one.rank == failure.rank) failure.pid = one.pid;
    }
    return failure;
}

namespace {

class HangWatch final : public Feature {
  public:
    HangWatch(HangWatchOptions options, std::shared_ptr<SharedLooks> shared, const std::string& progress_file)
        : options_(std::move(options)),
          shared_(std::move(shared)),
          clock_(hang_budgets(*options_.limit, options_.start)),
          sampler_(progress_file) {}
    HangWatch(const HangWatch&) = delete;
    HangWatch& operator=(const HangWatch&) = delete;
    ~HangWatch() override { join(); }

    void began(AgentControls& agent) override {
        agent_ = &agent;
        timer_.emplace(agent.executor());
    }
    void workers_run(const RoundReady& round) override {
        round_ = round;
        progress_ = {};
        is_looking_ = false;
        next_look_ = {};
        shared_->looks->known() = {};
        // A hang of the round before has ended with it.
        clock_.begin(Clock::now());
        if (asks_nobody() && !std::exchange(has_said_alone_, true))
            agent_->say(LogLevel::warn,
                        fmt::format("--hang-timeout counts the ranks of node 0 only: {}", kNoSecret));
        arm();
    }
    void learnt(const AgentNews& news) override;
    bool answer(const Question& question, const SayAnswer& say) override;
    void agent_leaves() override {
        agent_ = nullptr;
        timer_.reset();
        join();
    }

  private:
    using Clock = Deadline::clock;

    // Also where this node's ranks have ended, and those of others have not.
    bool watches() const {
        return agent_ != nullptr && (state_ == AgentState::running || state_ == AgentState::draining);
    }
    bool decides() const { return round_.group_rank == 0; }
    bool asks_nobody() const { return decides() && round_.group_world_size > 1 && !agent_->options().key; }
    bool is_hung() const {
        return clock_.state() == ClockState::hung || clock_.state() == ClockState::hung_early;
    }
    void join() {
        if (thread_.joinable()) thread_.join();
    }
    void arm();
    void measure();
    void take(NodeSample sample);
    void hear(ProgressSign sign, Deadline when);
    void ask_others();
    void hear_others(const std::vector<NodeAnswer>& answers);
    void look();
    void judge_by(std::vector<Observation> seen);
    void tell(const HangVerdict& verdict, const std::vector<Observation>& seen, Deadline now);

    const HangWatchOptions options_;
    const std::shared_ptr<SharedLooks> shared_;
    AgentControls* agent_ = nullptr;
    AgentState state_ = AgentState::joining;
    RoundReady round_;  // the last one
    ProgressClock clock_;
    NodeProgress progress_;
    RankSampler sampler_;  // the thread's, while there is one
    std::thread thread_;
    bool is_measuring_ = false;
    bool is_looking_ = false;  // or asks
    bool has_said_alone_ = false;
    bool has_said_unwatched_ = false;
    Deadline next_look_{};  // after one that found no hang
    Deadline told_{};       // when the last hang was told of
    std::optional<Deadline> suspended_;
    std::optional<boost::asio::steady_timer> timer_;
    Alive alive_;
};

void HangWatch::learnt(const AgentNews& news) {
    if (const auto* change = std::get_if<StateChanged>(&news)) {
        state_ = change->after;
        if (!watches() && timer_) timer_->cancel();
    }
    if (std::holds_alternative<Suspended>(news)) {
        suspended_ = Clock::now();
        timer_->cancel();
    }
    if (std::holds_alternative<Resumed>(news) && suspended_) {
        clock_.skip(Clock::now() - *std::exchange(suspended_, std::nullopt));
        if (watches()) arm();
    }
}

bool HangWatch::answer(const Question& question, const SayAnswer& say) {
    if (question.kind != kQuietQuestion || agent_ == nullptr) return false;
    say({.text = to_json(QuietAnswer{clock_.age(Clock::now()).count(), clock_.last_sign()})});
    return true;
}

// Nothing tells of a process that it has done nothing.
void HangWatch::arm() {
    timer_->expires_after(sampling_pause(*options_.limit));
    timer_->async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
        if (cancelled || !watches()) return;
        // The launcher has stood still, and perhaps the machine.
        const auto late = Clock::now() - timer_->expiry();
        if (late > sampling_pause(*options_.limit)) clock_.skip(late);
        arm();
        if (!std::exchange(is_measuring_, true)) measure();
    }));
}

// A file server that hangs would hold up the agent: hence the thread.
void HangWatch::measure() try {
    join();
    thread_ = start_without_signals([this, status = agent_->status(), round = round_.round,
                                     executor = agent_->executor(),
                                     finish = alive_.guard([this](int of_round, NodeSample sample) {
                                         is_measuring_ = false;
                                         if (watches() && of_round == round_.round) take(std::move(sample));
                                     })]() mutable {
        NodeSample sample = sampler_.sample(status);
        boost::asio::post(executor,
                          [finish = std::move(finish), round, sample = std::move(sample)]() mutable {
                              finish(round, std::move(sample));
                          });
    });
} catch (const std::system_error&) {
    is_measuring_ = false;
}

void HangWatch::take(NodeSample sample) {
    for (const WorkerStatus& worker : agent_->status().workers) {
        const auto rank = sample.ranks.find(worker.rank);
        if (rank != sample.ranks.end())
            rank->second.output_bytes = agent_->pump().printed_by(worker.local_rank);
    }
    const Deadline now = Clock::now();
    const auto signs = progress_.take(std::move(sample), now);
    shared_->looks->known().own = progress_.own();
    if (!signs.empty()) hear(signs.front(), now);
    const bool is_due = clock_.age(now) >= clock_.budget() && (now >= next_look_ || is_hung());
    if (decides() && is_due && !std::exchange(is_looking_, true)) ask_others();
}

void HangWatch::hear(ProgressSign sign, Deadline when) {
    const auto quiet = clock_.age(when);
    if (clock_.hear(sign, when) != ClockAction::tell_over || !decides()) return;
    shared_->looks->known().quiet_since_unix_ms.reset();
    agent_->say(LogLevel::info, fmt::format("the job gets on again, after {} s without progress: {}",
                                            quiet.count() / 1000, words_of(sign)));
    agent_->tell(HangOver{quiet.count(), sign});
}

void HangWatch::ask_others() {
    if (round_.group_world_size == 1 || asks_nobody()) return look();
    shared_->questions->ask(std::string(kQuietQuestion), {},
                            alive_.guard([this, round = round_.round](const std::vector<NodeAnswer>& answers,
                                                                      const std::string&) {
                                if (!watches() || round != round_.round) return;
                                hear_others(answers);
                                look();
                            }));
}

// A node without an answer has no signs; that one is lost the coordinator finds out.
void HangWatch::hear_others(const std::vector<NodeAnswer>& answers) {
    const Deadline now = Clock::now();
    for (const NodeAnswer& node : answers) {
        const auto told = node.trouble.empty() ? parse_quiet_answer(node.text) : std::nullopt;
        if (!told && !std::exchange(has_said_unwatched_, true))
            agent_->say(LogLevel::warn,
                        fmt::format("--hang-timeout does not count node {} ({}): {}", node.node,
                                    harmless_line(node.host), harmless_line(node.trouble)));
        if (!told || !told->sign) continue;
        const std::chrono::milliseconds quiet(told->quiet_ms);
        if (quiet >= clock_.age(now) || (is_hung() && now - quiet <= told_)) continue;
        hear(*told->sign, now - quiet);
    }
}

void HangWatch::look() {
    if (clock_.look(Clock::now()) != ClockAction::judge) {
        is_looking_ = false;
        return;
    }
    shared_->looks->observe({}, alive_.guard([this, round = round_.round](std::vector<Observation> seen) {
        if (watches() && round == round_.round) judge_by(std::move(seen));
    }));
}

void HangWatch::judge_by(std::vector<Observation> seen) {
    is_looking_ = false;
    const Deadline now = Clock::now();
    if (asks_nobody()) std::erase_if(seen, [this](auto& one) { return one.node != round_.group_rank; });
    const HangVerdict verdict = judge(seen, {clock_.age(now), clock_.budget()});
    const bool is_hang = verdict.kind == VerdictKind::hang || verdict.kind == VerdictKind::deadlock ||
                         verdict.kind == VerdictKind::mismatch;
    next_look_ = now + std::max<std::chrono::milliseconds>(clock_.budget() / 2, std::chrono::seconds(1));
    if (clock_.judged(is_hang) == ClockAction::tell) return tell(verdict, seen, now);
    if (!is_hang)
        agent_->say(LogLevel::debug,
                    fmt::format("no progress, but no hang: {}",
                                verdict.sentence.empty() ? "ranks compute" : verdict.sentence));
}

void HangWatch::tell(const HangVerdict& verdict, const std::vector<Observation>& seen, Deadline now) {
    const auto quiet = clock_.age(now);
    const std::int64_t time = unix_time_now_ms();
    told_ = now;
    shared_->looks->known().quiet_since_unix_ms = time - quiet.count();
    agent_->say(LogLevel::warn, hang_line(options_, verdict, quiet));
    agent_->tell(HangFound{verdict, time - quiet.count(), quiet.count()});
    if (options_.action == HangAction::report) return;
    agent_->send(WorkerFailed{round_.round, hang_failure(verdict, seen, time)});
}

}  // namespace

std::unique_ptr<Feature> make_hang_watch(const FeatureInputs& inputs) {
    const auto& features = inputs.options.features;
    const auto& shared = features.of<SharedLooksOptions>().shared;
    if (!shared) return nullptr;
    return std::make_unique<HangWatch>(features.of<HangWatchOptions>(), shared, inputs.options.progress_file);
}

}  // namespace launch
}  // namespace ddprun
