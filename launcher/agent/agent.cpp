#include "launcher/agent/agent.hpp"

#include <fmt/core.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "launcher/agent/agent_link.hpp"
#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/end_of_job.hpp"
#include "launcher/agent/job_knowledge.hpp"
#include "launcher/agent/node_answer.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/agent/worker_network.hpp"
#include "launcher/guardian/guardian.hpp"
#include "launcher/join/join_reporter.hpp"
#include "launcher/report/failure_report.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Clock = std::chrono::steady_clock;

// How much longer than one grace period the other nodes may take to end.
constexpr std::chrono::seconds kFinishTimeout{30};
constexpr std::chrono::seconds kGoodbyeTimeout{5};  // of the host, for the other agents' once the job is over

class Agent final : public AgentControls, public AgentLinkObserver, public RoundObserver {
  public:
    Agent(LaunchOptions options, LauncherLog& log, const Features& features, const RunnerMaker& make_runner)
        : options_(std::move(options)),
          log_(log),
          features_(features),
          runner_(make_runner
                      ? make_runner(context_.get_executor(), warner())
                      : make_guardian(context_.get_executor(), static_cast<int>(options_.workers.size()),
                                      warner(), cgroup_, [this] { options_.key.reset(); })),
          timer_(context_),
          link_(*this, *this, options_, log_) {}
    ~Agent() {
        features_.at(&Feature::agent_leaves);
        if (pump_) close_output();
    }

    int run() {
        pump_.emplace(executor(), options_.output,
                      OutputPumpSettings{.temporary_folder = temporary_folder(options_.environment),
                                         .in_run_folder = options_.in_run_folder,
                                         .on_line = features_.line_watcher()},
                      [this](const std::string& notice) { log_.warn(notice); });
        log_.speak_by(&*pump_);
        network_.emplace(*this, options_, log_);
        features_.at(&Feature::began, *this);
        options_.answers_failures = features_.answer_failures();
        link_.make(features_.want_all_ranks() || !options_.result_file.empty());
        link_.join();
        await_reminder();
        context_.run();
        return exit_code_;
    }

  private:
    std::function<void(const std::string&)> warner() {
        return [this](const std::string& what) { log_.warn(what); };
    }

    // Features ask for these (AgentControls).
    boost::asio::any_io_executor executor() override { return context_.get_executor(); }
    const LaunchOptions& options() const override { return options_; }
    ProcessRunner& runner() override { return *runner_; }
    OutputPump& pump() override { return *pump_; }
    RendezvousLink& link() override { return *link_; }
    RoundWorkers* round() override { return round_ ? &*round_ : nullptr; }
    AgentStatus status() const override {
        AgentStatus status =
            job_.status(machine_.state(), round_ ? round_->status() : std::vector<WorkerStatus>());
        status.host = host_name();
        status.pid = ::getpid();
        if (const auto kill_at = round_ ? round_->kill_at() : std::nullopt)
            status.kill_unix_ms = unix_time_now_ms() + time_until(*kill_at).count();
        return status;
    }
    void say(LogLevel level, const std::string& line) override {
        level == LogLevel::debug  ? log_.debug(line)
        : level == LogLevel::info ? log_.info(line)
                                  : log_.warn(line);
    }
    void end_by(int signal, bool impatient) override {
        log_.info(job_.notice_of(signal, machine_.state(), options_));
        if (round_ && !impatient) round_->hurry();
        handle(job_.learn_signal(signal, impatient));
    }
    void time_is_over(const std::string& why) override { handle(job_.learn_time_is_over(why)); }
    void worker_hangs(int local_rank, const std::string& why) override { round_->hangs(local_rank, why); }
    void send(const ControlMessage& message) override { link_->send(message); }
    void tell(const AgentNews& news) override { features_.at(&Feature::learnt, news); }

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
            log_.error(to_string(worker) +
                       (worker.foreign_uid < 0 ? " does not end even by SIGKILL"
                                               : " belongs to another user, so this one may not end it") +
                       "; this node needs attention");
        link_.workers_gone();
        send_ends();
        handle(round_->ledger().all_zero() && unkillable.empty() ? AgentEvent::workers_succeeded
                                                                 : AgentEvent::workers_gone);
    }

    // The link says what comes from the coordinator, and what happens to the way to it (AgentLinkObserver).
    AgentState state() const override { return machine_.state(); }
    void refuse(const Refused& why) override { handle(job_.learn_refusal(why)); }
    void be_led() override {
        tell(LedAgain{});
        if (machine_.state() == AgentState::seeking) send_ends();
        handle(AgentEvent::led);
        if (job_.signal() != 0) send(*job_.message_for(AgentAction::tell_signal));
    }
    void hear(const ControlMessage& message) override {
        if (const auto* question = std::get_if<Question>(&message)) {
            return answer_to(*question, features_, options_.key.has_value(),
                             [this](Answer piece) { send(std::move(piece)); });
        }
        features_.at(&Feature::heard, message);
        if (round_) round_->hear(message);
        if (const auto* round = std::get_if<RoundReady>(&message)) options_.node_rank = round->group_rank;
        if (const auto* asked = std::get_if<WhoRuns>(&message))
            send(still_running_of(asked->round, status().workers));
        if (const auto* restarting = std::get_if<Restarting>(&message)) {
            log_.warn(to_text(*restarting));
            for (const std::string& line : doing_lines(restarting->cause)) log_.warn(line);
            await_finish(std::chrono::milliseconds(restarting->delay_ms));
        }
        if (const auto event = job_.learn(message)) handle(*event);
    }
    void send_ends() {
        for (RankEnds& ends : as_messages(job_.round().round, round_->ledger().ends())) send(std::move(ends));
    }

    // The coordinator was lost. While this node joins it tries again, unless that is hopeless; later the
    // workers stop, and another coordinator is looked for where the job may have one.
    void lose(const CoordinatorLoss& loss) override {
        JoinReporter& reporter = link_.reporter();
        if (loss.kind == CoordinatorLoss::Kind::unreached)
            return refuse(reporter.given_up(loss.cause, options_.master_source));
        const bool waits_for_place = machine_.state() == AgentState::rejoining && link_->may_retry_members();
        if (machine_.state() == AgentState::joining || waits_for_place) {
            const auto refused = reporter.met(loss, link_->hosts());
            if (refused) return refuse(*refused);
            reporter.trouble(loss.cause);
        } else {
            if (job_.learn_loss(loss, options_)) reporter.tell_loss(*job_.first_failure());
            if (link_.seek(loss)) return handle(AgentEvent::leader_lost);
        }
        handle(waits_for_place ? AgentEvent::place_lost : AgentEvent::connection_lost);
    }

    void handle(AgentEvent event) override {
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
            case AgentAction::remind: link_.reporter().look(); return await_reminder();
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
            case AgentAction::await_others: return await_others();
            case AgentAction::end: return link_->withdraw([this] { context_.stop(); });
        }
    }

    void start_workers() {
        timer_.cancel();
        const RoundReady& round = job_.round();
        round_.emplace(executor(), *runner_, *pump_, options_, round, link_.begin_round(round, *network_),
                       OomSources{.job_cgroup = cgroup_.value_or("")}, features_, *this);
        log_.debug(fmt::format("round {} of job {}", round.round, round.job_id));
        round_->start();
        if (machine_.state() == AgentState::running) features_.at(&Feature::workers_run, round);
    }

    void stop_workers(int signal) {
        log_.debug(fmt::format("stopping the workers by {}{}", signal_text(signal), job_.stop_reason()));
        if (round_) round_->stop(job_.stop_cause(signal));
    }

    void report_gone() {
        const WorkersGone gone = round_->gone();
        if (gone.failure) job_.learn_failure(*gone.failure);
        job_.learn_doings(gone);
        send(gone);
        await_finish({});
    }

    // The other nodes have their own grace periods, and there may be a pause before the next round; after
    // that this agent goes with what it knows.
    void await_finish(std::chrono::milliseconds pause) {
        set_deadline(Clock::now() + options_.grace_period + pause + kFinishTimeout,
                     AgentEvent::finish_timed_out);
    }

    void await_reminder() { set_deadline(link_.reporter().next_look(), AgentEvent::reminder_due); }

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
        exit_code_ = end_job(job_.ending(), options_, round(), log_, features_);
        handle(AgentEvent::reported);
    }

    void await_others() {
        if (!job_.has_last_word() || link_->is_over()) return handle(AgentEvent::others_left);
        set_deadline(Clock::now() + kGoodbyeTimeout, AgentEvent::others_left);
    }

    boost::asio::io_context context_{1};
    LaunchOptions options_;
    LauncherLog& log_;
    Features features_;
    AgentMachine machine_;
    JobKnowledge job_{unix_time_now_ms()};
    const std::optional<std::filesystem::path> cgroup_ = own_cgroup_folder();
    std::unique_ptr<ProcessRunner> runner_;
    boost::asio::steady_timer timer_;
    std::optional<OutputPump> pump_;     // the launcher's own lines go between the workers'
    std::optional<RoundWorkers> round_;  // the last one
    std::optional<WorkerNetwork> network_;
    AgentLink link_;
    int exit_code_ = kExitInternal;
};

}  // namespace

int run_agent(LaunchOptions options, LauncherLog& log, const Features& features,
              const RunnerMaker& make_runner) {
    return Agent(std::move(options), log, features, make_runner).run();
}

}  // namespace launch
}  // namespace ddprun
