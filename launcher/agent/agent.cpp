#include "launcher/agent/agent.hpp"

#include <fmt/core.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "launcher/agent/agent_link.hpp"
#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/job_knowledge.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/guardian/guardian.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline launch {
namespace {

using Clock = std::chrono::steady_clock;

// How much longer than one grace period the other nodes may take to end.
constexpr std::chrono::seconds kFinishTimeout{30};
constexpr std::chrono::seconds kGoodbyeTimeout{5};  // of the host, for the other agents' once the job is over

class Agent final : public AgentControls, public RoundObserver {
  public:
    Agent(LaunchOptions options, LauncherLog& log, const Features& features, const RunnerMaker& make_runner)
        : options_(std::move(options)),
          log_(log),
          features_(features),
          runner_(make_runner(context_.get_executor(), [this](const std::string& what) { log_.warn(what); })),
          timer_(context_),
          reporter_(log_, JoinStatus(Clock::now(), JoinStatus::kFirstTroubleDelay, options_.join_timeout,
                                     JoinStatus::advice_to(options_))),
          link_(*this, options_, log_, reporter_, link_events()) {}
    ~Agent() {
        features_.at(&Feature::agent_leaves);
        if (pump_) close_output();
    }

    int run() {
        pump_.emplace(executor(), options_.output,
                      OutputPumpSettings{.temporary_folder = temporary_folder(options_.environment),
                                         .in_run_folder = options_.in_run_folder},
                      [this](const std::string& notice) { log_.warn(notice); });
        log_.speak_by(&*pump_);
        network_.emplace(executor(), options_, log_);
        features_.at(&Feature::began, *this);
        link_.make(features_.want_all_ranks() || !options_.result_file.empty());
        link_.join();
        await_reminder();
        context_.run();
        return exit_code_;
    }

  private:
    // Features ask for these (AgentControls).
    boost::asio::any_io_executor executor() override { return context_.get_executor(); }
    const LaunchOptions& options() const override { return options_; }
    ProcessRunner& runner() override { return *runner_; }
    AgentStatus status() const override { return job_.status(machine_.state(), workers()); }
    void say(LogLevel level, const std::string& line) override {
        level == LogLevel::debug  ? log_.debug(line)
        : level == LogLevel::info ? log_.info(line)
                                  : log_.warn(line);
    }
    void end_by(int signal, bool impatient) override {
        log_.info(job_.notice_of(signal, machine_.state(), options_));
        handle(job_.learn_signal(signal, impatient));
    }
    void suspend(std::function<void()> stop) override {
        tell(Suspended{});
        if (round_) round_->freeze();
        link_->suspend([this, stop = std::move(stop)] {
            stop();
            if (round_) round_->thaw();
            tell(Resumed{});
            link_->resume();
        });
    }
    void window_changed() override {
        pump_->window_changed();
        if (round_) round_->window_changed();
    }
    void time_is_over(const std::string& why) override { handle(job_.learn_time_is_over(why)); }
    void worker_hangs(int local_rank, const std::string& why) override { round_->hangs(local_rank, why); }
    void send(const ControlMessage& message) override { link_->send(message); }
    void tell(const AgentNews& news) override { features_.at(&Feature::learnt, news); }

    std::vector<WorkerStatus> workers() const {
        return round_ ? round_->status() : std::vector<WorkerStatus>();
    }
    // Before the first round there are none.
    const RoundWorkers* last_round() const { return round_ ? &*round_ : nullptr; }
    // Ends the pump, and with it the log's way through it; returns what was lost.
    std::vector<std::string> close_output() {
        auto losses = pump_->stop();
        log_.speak_by(nullptr);
        return losses;
    }

    // The round says what becomes of this node's workers (RoundObserver).
    void workers_fail(const Failure& failure) override {
        // If this agent stood still, the guardian may have ended the workers, which it does by SIGKILL.
        if (const auto loss = failure.signal == SIGKILL ? link_->overdue_loss() : std::nullopt) lose(*loss);
        handle(job_.learn_failure(failure));
    }
    void workers_gone(const std::vector<UnkillableWorker>& unkillable) override {
        for (const UnkillableWorker& worker : unkillable)
            log_.error(to_string(worker) + " does not end even by SIGKILL; this node needs attention");
        last_moment_.reset();
        tell_lease();
        send_ends();
        handle(round_->ledger().all_zero() && unkillable.empty() ? AgentEvent::workers_succeeded
                                                                 : AgentEvent::workers_gone);
    }

    // The link calls these: what comes from the coordinator, and what happens to the way to it.
    RendezvousLinkEvents link_events() {
        return {.client = {.on_message = [this](const ControlMessage& message) { hear(message); },
                           .on_trouble = [this](const std::string& cause) { reporter_.trouble(cause); },
                           .on_lost = [this](const CoordinatorLoss& loss) { lose(loss); },
                           .on_lease =
                               [this](const auto& end) {
                                   lease_end_ = end;
                                   tell_lease();
                               }},
                .on_led = [this] { be_led(); },
                .has_workers =
                    [this] {
                        return machine_.state() == AgentState::stopping_leaderless ||
                               machine_.state() == AgentState::running;
                    },
                .on_leading =
                    [this] {
                        log_.info("this node leads the job now");
                        tell(TookOver{});
                    },
                .on_place_known = {},
                .on_election_trouble =
                    [this](const std::string& cause) { reporter_.etcd_trouble(cause, link_->hosts()); },
                .on_unelected = [this](const std::string& why) { refuse(JoinStatus::not_elected(why)); },
                .on_guests_gone = [this] { handle(AgentEvent::guests_gone); },
                .on_host_failed =
                    [this](const auto& why) {
                        hasten();
                        refuse(JoinStatus::host_failed(why));
                    },
                .on_news = [this](const std::string& text) { log_.info(text); },
                .on_step = [this](const std::string& text) { log_.debug(text); }};
    }
    // This agent never becomes part of the job, or the job ends, for this reason.
    void refuse(const Refused& why) { handle(job_.learn_refusal(why)); }
    // A new coordinator knows of this node what it is told here.
    void be_led() {
        tell(LedAgain{});
        if (machine_.state() == AgentState::seeking) send_ends();
        handle(AgentEvent::led);
        if (job_.signal() != 0) send(*job_.message_for(AgentAction::tell_signal));
    }

    void send_ends() {
        for (RankEnds& ends : as_messages(job_.round().round, round_->ledger().ends())) send(std::move(ends));
    }

    void hear(const ControlMessage& message) {
        features_.at(&Feature::heard, message);
        reporter_.hear(message);
        std::visit([this](const auto& one) { obey(one); }, message);
        if (const auto event = job_.learn(message)) handle(*event);
    }
    void obey(const RoundReady& round) { options_.node_rank = round.group_rank; }
    void obey(const NoticeSignal& notice) {
        if (round_) round_->signal_all(notice.signal);
    }
    void obey(const PeerDying& dying) {
        if (round_) round_->peer_died(dying);
    }
    void obey(const Stop& stop) {
        if (stop.is_awaited) hasten();
    }
    void obey(const WhoRuns& asked) { send(still_running_of(asked.round, workers())); }
    void obey(const Restarting& restarting) {
        // No report follows that would show the last words of a rank which is kept off the screen.
        const auto own = round_ ? round_->ledger().failure() : std::nullopt;
        if (own && own->rank == witness_of(restarting.cause)) pump_->replay_stderr(own->local_rank);
        log_.warn(to_text(restarting));
        await_finish(std::chrono::milliseconds(restarting.delay_ms));
    }
    void obey(const auto&) {}

    // The coordinator was lost. While this node joins it tries again, unless that is hopeless; later the workers stop, and
    // another coordinator is looked for where the job may have one.
    void lose(const CoordinatorLoss& loss) {
        if (loss.kind == CoordinatorLoss::Kind::unreached) return refuse(reporter_.given_up(loss.cause));
        const bool is_guest = machine_.state() == AgentState::rejoining && link_->may_retry_members();
        if (machine_.state() == AgentState::joining || is_guest) {
            const auto refused = reporter_.met(loss, link_->hosts());
            if (refused) return refuse(*refused);
            reporter_.trouble(loss.cause);
        } else {
            if (job_.learn_loss(loss, options_)) reporter_.tell_loss(*job_.first_failure());
            hasten();
            if (link_->seek(loss)) return seek(loss.cause);
        }
        handle(is_guest ? AgentEvent::place_lost : AgentEvent::connection_lost);
    }

    // The others may go on without this node, and count on the end of its workers, also if this process stands still from now
    // on. Its last moment is for the kernel, and for the guardian where the agent does not kill them.
    void hasten() {
        if (!round_ || round_->is_over() || last_moment_) return;
        const auto grace = Aftermath::lost_grace(options_.grace_when_lost().count());
        last_moment_ = Clock::now() + grace - Aftermath::kGuardianTime;
        tell_lease();
        round_->hasten(grace - Aftermath::kKillTime);
    }
    void tell_lease() {
        const bool is_first = last_moment_ && (!lease_end_ || *last_moment_ < lease_end_->at);
        runner_->set_lease(is_first ? LeaseEnd(*last_moment_) : lease_end_);
    }

    void seek(const std::string& cause) {
        log_.info("the nodes that are left choose another coordinator");
        tell(CoordinatorLost{cause});
        handle(AgentEvent::leader_lost);
    }

    void handle(AgentEvent event) {
        const AgentState before = machine_.state();
        const AgentAction action = machine_.handle(event);
        log_.debug(transition_text(before, event, machine_.state()));
        tell(StateChanged{before, event, machine_.state()});
        carry_out(action);
    }

    void carry_out(AgentAction action) {
        if (const auto message = job_.message_for(action)) send(*message);
        switch (action) {
            case AgentAction::none:
            case AgentAction::report_success: break;
            case AgentAction::join_again: return link_->join();
            case AgentAction::remind: reporter_.look(); return await_reminder();
            case AgentAction::await_place: return await_reminder();
            case AgentAction::start_workers: return start_workers();
            case AgentAction::report_failure:
            case AgentAction::stop_workers: return stop_workers(job_.stop_signal());
            case AgentAction::report_signal: return stop_workers(job_.signal());
            case AgentAction::tell_signal:
                // Nothing else would end the wait of a node whose workers are done.
                if (machine_.state() == AgentState::draining || machine_.state() == AgentState::rejoining)
                    await_finish({});
                break;
            case AgentAction::kill_workers:
                if (round_) round_->kill_now();
                break;
            case AgentAction::report_gone: return report_gone();
            case AgentAction::leave: return leave();
            case AgentAction::report: return report();
            case AgentAction::await_goodbye:
                return link_->close([this] { handle(AgentEvent::goodbye_said); });
            case AgentAction::await_guests: return await_guests();
            case AgentAction::end: return link_->withdraw([this] { context_.stop(); });
        }
    }

    void start_workers() {
        timer_.cancel();
        reporter_.end();
        const RoundReady& round = job_.round();
        options_.master = link_->place();
        WorkerStation station = network_->begin_round(options_, round, *link_);
        if (link_->hosts()) runner_->set_lease(lease_end_);
        station.host = host_name();
        round_.emplace(executor(), *runner_, *pump_, options_, round, std::move(station), features_, *this);
        log_.debug(fmt::format("round {} of job {}", round.round, round.job_id));
        round_->start();
        if (machine_.state() == AgentState::running) features_.at(&Feature::workers_run, round);
    }

    void stop_workers(int signal) {
        log_.debug(fmt::format("stopping the workers by {}{}", signal_text(signal), job_.stop_reason()));
        if (round_) round_->stop(signal);
    }

    void report_gone() {
        const WorkersGone gone = round_->gone();
        if (gone.failure) job_.learn_failure(*gone.failure);
        send(gone);
        await_finish({});
    }

    // The other nodes have their own grace periods, and there may be a pause before the next round; after
    // that this agent goes with what it knows.
    void await_finish(std::chrono::milliseconds pause) {
        set_deadline(Clock::now() + options_.grace_period + pause + kFinishTimeout,
                     AgentEvent::finish_timed_out);
    }

    void await_reminder() { set_deadline(reporter_.next_look(), AgentEvent::reminder_due); }

    // The machine waits for something else, but no longer than this.
    void set_deadline(Deadline deadline, AgentEvent event) {
        timer_.expires_at(deadline);
        timer_.async_wait([this, event](boost::system::error_code cancelled) {
            if (cancelled) return;
            const auto late = overslept(timer_);
            late.count() > 0 ? set_deadline(Clock::now() + late, event) : handle(event);
        });
    }

    void leave() {
        link_.close();
        runner_->hang_up();
        timer_.cancel();
        log_.debug("the job is over; showing what is left of the workers' output");
        pump_->drain([this] { handle(AgentEvent::output_shown); },
                     job_.is_hurried() ? OutputPump::kShortConsoleTimeout : OutputPump::kConsoleTimeout);
    }

    // Fixes the exit code and says why the job ended.
    void report() {
        for (const std::string& loss : close_output()) log_.error(loss);
        exit_code_ = end_job(job_.ending(), options_, last_round(), log_, features_);
        handle(AgentEvent::reported);
    }

    void await_guests() {
        if (!job_.has_last_word() || link_->is_over()) return handle(AgentEvent::guests_gone);
        set_deadline(Clock::now() + kGoodbyeTimeout, AgentEvent::guests_gone);
    }

    boost::asio::io_context context_{1};
    LaunchOptions options_;
    LauncherLog& log_;
    Features features_;
    AgentMachine machine_;
    JobKnowledge job_{unix_time_now_ms()};
    std::unique_ptr<ProcessRunner> runner_;
    boost::asio::steady_timer timer_;
    JoinReporter reporter_;
    std::optional<OutputPump> pump_;     // the launcher's own lines go between the workers'
    std::optional<RoundWorkers> round_;  // the last one
    std::optional<WorkerNetwork> network_;
    AgentLink link_;
    std::optional<LeaseEnd> lease_end_;             // as the link says
    std::optional<Clock::time_point> last_moment_;  // see hasten()
    int exit_code_ = kExitInternal;
};

}  // namespace

int run_agent(LaunchOptions options, LauncherLog& log, const Features& features,
              const RunnerMaker& make_runner) {
    const RunnerMaker guardian = [workers = static_cast<int>(options.workers.size())](const auto& executor,
                                                                                      auto on_trouble) {
        return make_guardian(executor, workers, std::move(on_trouble));
    };
    return Agent(std::move(options), log, features, make_runner ? make_runner : guardian).run();
}

}  // namespace ddprun::inline launch
