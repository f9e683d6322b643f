#include "launcher/agent/agent.hpp"

#include <fmt/core.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/agent_signals.hpp"
#include "launcher/agent/end_of_job.hpp"
#include "launcher/agent/failure_inquiry.hpp"
#include "launcher/agent/job_knowledge.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/agent/join_news.hpp"
#include "launcher/agent/node_traits.hpp"
#include "launcher/agent/node_workers.hpp"
#include "launcher/agent/worker_network.hpp"
#include "launcher/guardian/guardian.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/times/limit_timer.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/net/late_name.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline launch {
namespace {

using Clock = std::chrono::steady_clock;

// How much longer than one grace period the other nodes may take to end.
constexpr std::chrono::seconds kFinishTimeout{30};
// The agent kills its workers itself, and the guardian only if it has not; by kKillTime the others go on.
constexpr std::chrono::milliseconds kGuardianDelay = std::chrono::milliseconds(Coordinator::kKillTime) / 2;
constexpr std::chrono::seconds kGoodbyeTimeout{5};  // of the host, for the other agents' once the job is over

class Agent {
  public:
    Agent(LaunchOptions options, LauncherLog& log, const Watchers& watchers, const RunnerMaker& make_runner)
        : options_(std::move(options)),
          log_(log),
          watchers_(watchers),
          runner_(make_runner(context_.get_executor(), [this](const std::string& what) { log_.warn(what); })),
          signals_(context_.get_executor(), options_, signal_events()),
          timer_(context_),
          inquiry_(context_.get_executor(), *runner_, options_, log_),
          join_news_(log_, JoinStatus(Clock::now(), JoinStatus::kFirstTroubleDelay, options_.join_timeout,
                                      JoinStatus::advice_to(options_))) {}

    int run() {
        signals_.watch();
        make_link();
        node_.emplace(context_.get_executor(), *runner_, options_, log_, watchers_);
        network_.emplace(context_.get_executor(), options_, log_);
        watchers_.began(context_.get_executor(),
                        {.status = [this] { return job_.status(machine_.state(), node_->status()); },
                         .signal = [this](int signal) { signals_.take(signal); }});
        watchers_.learnt(PlaceKnown{options_.master, link_->hosts()});
        link_->join();
        await_name();
        await_reminder();
        context_.run();
        return exit_code_;
    }

  private:
    void make_link() {
        Hello hello = hello_of(options_, watchers_.want_all_ranks() || !options_.result_file.empty());
        if (options_.nnodes > 1) hello.traits = node_traits(options_);
        link_ = RendezvousLink::make(context_.get_executor(), link_options_of(options_, std::move(hello)),
                                     link_events());
        host_if_due(options_, *link_, join_news_, log_);
        watch_limit();
        log_.debug(rendezvous_text(options_, link_->hosts()));
    }

    // The name where the nodes meet is not known here yet. This node may host all the same, or once that is its own.
    void await_name() {
        if (!awaits_name(options_, link_->hosts())) return;
        late_name_.emplace(context_.get_executor(), options_.master.host, [this](bool is_here) {
            master_is_known(options_, log_);
            if (link_->hosts() || !is_here || machine_.state() != AgentState::joining) return;
            options_.hosting = Hosting::if_first;
            make_link();
            watchers_.learnt(PlaceKnown{options_.master, link_->hosts()});
            link_->join();
        });
    }

    RendezvousLinkEvents link_events() {
        return {
            .client = client_events(),
            .on_led = [this] { be_led(); },
            .has_workers =
                [this] {
                    return machine_.state() == AgentState::stopping_leaderless ||
                           machine_.state() == AgentState::running;
                },
            .on_leading =
                [this] {
                    log_.info("this node leads the job now");
                    watchers_.learnt(TookOver{});
                    watch_limit();
                },
            .on_place_known =
                [this] {
                    options_.master = link_->place();
                    watchers_.learnt(PlaceKnown{options_.master, link_->hosts()});
                    watch_limit();
                    log_.debug(rendezvous_text(options_, link_->hosts()));
                },
            .on_election_trouble =
                [this](const std::string& cause) { join_news_.etcd_trouble(cause, link_->hosts()); },
            .on_unelected =
                [this](const std::string& why) { handle(job_.learn_refusal(JoinStatus::not_elected(why))); },
            .on_guests_gone = [this] { handle(AgentEvent::guests_gone); },
            .on_host_failed = [this](auto& why) { handle(job_.learn_refusal(JoinStatus::host_failed(why))); },
            .on_news = [this](const std::string& text) { log_.info(text); },
            .on_step = [this](const std::string& text) { log_.debug(text); }};
    }

    // A new coordinator knows of this node what it is told here.
    void be_led() {
        watchers_.learnt(LedAgain{});
        if (machine_.state() == AgentState::seeking) send_ends();
        handle(AgentEvent::led);
        if (job_.signal() != 0) link_->send(*job_.message_for(AgentAction::tell_signal));
    }

    void send_ends() {
        for (RankEnds& ends : as_messages(job_.round().round, node_->last_round()->ledger().ends()))
            link_->send(std::move(ends));
    }

    // Only the host's counts.
    void watch_limit() {
        const TimeLimitOptions times = link_->hosts() ? options_.times : TimeLimitOptions{};
        LimitEvents events{.on_end = [this](auto& why) { handle(job_.learn_time_is_over(why)); },
                           .on_warning = [this](int signal, auto& line) { warn_workers(signal, line); }};
        limit_.emplace(context_.get_executor(), TimeLimit{times, options_.start}, std::move(events));
        limit_->watch();
    }

    CoordinatorClientEvents client_events() {
        return {.on_message =
                    [this](const ControlMessage& message) {
                        join_news_.heard();
                        watchers_.heard(message);
                        std::visit([this](const auto& one) { receive(one); }, message);
                        if (const auto event = job_.learn(message)) handle(*event);
                    },
                .on_trouble = [this](const std::string& cause) { join_news_.trouble(cause); },
                .on_lost = [this](const CoordinatorLoss& loss) { lose(loss); },
                .on_lease = [this](const auto& end) { runner_->set_lease(lease_end_ = end); }};
    }

    AgentSignalEvents signal_events() {
        return {.on_received = [this](int signal) { watchers_.learnt(SignalReceived{signal}); },
                .on_ending =
                    [this](int signal, bool impatient) {
                        log_.info(job_.notice_of(signal, machine_.state(), options_));
                        handle(job_.learn_signal(signal, impatient));
                    },
                // The coordinator sends it back to every agent, this one included.
                .on_forward =
                    [this](int signal, bool requeue) {
                        link_->send(NoticeSignal{job_.round().round, signal, requeue});
                    },
                .on_window = [this] { node_->window_changed(); },
                .on_stop =
                    [this](std::function<void()> stop) {
                        node_->freeze();
                        link_->suspend(std::move(stop));
                    },
                .on_continue =
                    [this] {
                        node_->thaw();
                        link_->resume();
                    }};
    }

    RoundEvents round_events() {
        return {.on_failure = [this](const Failure& failure) { fail(failure); },
                .on_gone = [this](const auto& unkillable) { workers_gone(unkillable); },
                .on_dying = [this](const WorkerDying& dying) { link_->send(dying); },
                .on_first_success =
                    [this](int rank) {
                        link_->send(RankSucceeded{job_.round().round, rank});
                    }};
    }

    void receive(const RoundReady& round) { options_.node_rank = round.group_rank; }
    void receive(const Waiting& waiting) { join_news_.waiting(waiting); }
    void receive(const Parked& parked) { join_news_.parked(parked); }
    void receive(const PeerRefused& other) { log_.info(JoinStatus::refused(other)); }
    void receive(const NodesDiffer& differ) {
        for (const std::string& difference : differ.differences) log_.warn(harmless_line(difference));
    }
    void receive(const NoticeSignal& notice) { node_->signal_all(notice.signal); }
    void receive(const Stop& stop) { tell_loss(stop.cause); }
    void receive(const PeerDying& dying) { node_->peer_died(dying); }
    void receive(const WhoRuns& asked) { link_->send(still_running_of(asked.round, node_->status())); }
    void receive(const Remark& remark) { log_.info(harmless_line(remark.text)); }
    void receive(const JudgeFailure& asked) {
        inquiry_.ask(job_.round(), asked, [this](const Judgement& judgement) { link_->send(judgement); });
    }
    void receive(const Restarting& restarting) {
        node_->announce(restarting);
        await_finish(std::chrono::milliseconds(restarting.delay_ms));
    }
    void receive(const auto&) {}

    void fail(const Failure& failure) {
        // Then the guardian may have ended the workers, which it does by SIGKILL.
        if (const auto loss = failure.signal == SIGKILL ? link_->overdue_loss() : std::nullopt) lose(*loss);
        handle(job_.learn_failure(failure));
    }

    void lose(const CoordinatorLoss& loss) {
        if (loss.kind == CoordinatorLoss::Kind::unreached)
            return handle(job_.learn_refusal(join_news_.given_up(loss.cause)));
        const bool is_guest = machine_.state() == AgentState::rejoining && link_->may_retry_members();
        if (machine_.state() == AgentState::joining || is_guest) {
            const auto refused = join_news_.met(loss, link_->hosts());
            if (refused) return handle(job_.learn_refusal(*refused));
            join_news_.trouble(loss.cause);
        } else {
            if (loss.kind == CoordinatorLoss::Kind::leaderless) job_.learn_no_successor(loss.cause);
            const bool is_own = loss.kind == CoordinatorLoss::Kind::given_up;
            if (job_.learn_loss(is_own ? options_.node_rank : job_.round().coordinator_rank,
                                is_own ? host_name() : options_.master.host, loss.cause))
                tell_loss(*job_.first_failure());
            if (link_->seek(loss)) {
                // Also if this process stands still from now on: another round may begin then.
                const auto end = Clock::now() + options_.grace_period + kGuardianDelay;
                if (!lease_end_ || !has_passed(lease_end_->at)) runner_->set_lease(end);
                log_.info("the nodes that are left choose another coordinator");
                watchers_.learnt(CoordinatorLost{loss.cause});
                return handle(AgentEvent::leader_lost);
            }
        }
        handle(is_guest ? AgentEvent::place_lost : AgentEvent::connection_lost);
    }

    // At once: the workers may take their whole grace to end, and the report comes after that.
    void tell_loss(const Failure& cause) {
        if (cause.kind == Failure::Kind::node_lost) log_.warn(harmless_line(loss_text(cause)));
    }

    void workers_gone(const std::vector<UnkillableWorker>& unkillable) {
        node_->warn_of(unkillable);
        const RoundLedger& ledger = node_->last_round()->ledger();
        send_ends();
        handle(ledger.all_zero() && unkillable.empty() ? AgentEvent::workers_succeeded
                                                       : AgentEvent::workers_gone);
    }

    void handle(AgentEvent event) {
        const AgentState before = machine_.state();
        const AgentAction action = machine_.handle(event);
        log_.debug(transition_text(before, event, machine_.state()));
        watchers_.learnt(StateChanged{to_text(before), to_text(event), to_text(machine_.state())});
        carry_out(action);
    }

    void carry_out(AgentAction action) {
        if (const auto message = job_.message_for(action)) link_->send(*message);
        switch (action) {
            case AgentAction::none:
            case AgentAction::report_success: break;
            case AgentAction::join_again: return link_->join();
            case AgentAction::remind: join_news_.look(); return await_reminder();
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
            case AgentAction::kill_workers: return node_->kill_now();
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
        join_news_.end();
        const RoundReady& round = job_.round();
        options_.master = link_->place();
        WorkerStation station = network_->begin_round(options_, round, *link_);
        if (link_->hosts()) runner_->set_lease(lease_end_);
        node_->start(round, std::move(station), round_events());
        limit_->round_begins();
        if (machine_.state() == AgentState::running) watchers_.workers_run(round);
    }

    // Of all nodes, by way of the coordinator; while it stops them it passes nothing on.
    void warn_workers(int signal, const std::string& line) {
        if (machine_.state() != AgentState::running && machine_.state() != AgentState::draining) return;
        log_.info(line);
        watchers_.learnt(TimeWarning{signal, line});
        link_->send(NoticeSignal{job_.round().round, signal, options_.requeue_signals.contains(signal)});
    }

    void stop_workers(int signal) {
        log_.debug(fmt::format("stopping the workers by {}{}", signal_text(signal), job_.stop_reason()));
        node_->stop(signal);
    }

    void report_gone() {
        const WorkersGone gone = node_->last_round()->gone();
        if (gone.failure) job_.learn_failure(*gone.failure);
        link_->send(gone);
        await_finish({});
    }

    // The other nodes have their own grace periods, and there may be a pause before the next round; after
    // that this agent goes with what it knows.
    void await_finish(std::chrono::milliseconds pause) {
        set_deadline(Clock::now() + options_.grace_period + pause + kFinishTimeout,
                     AgentEvent::finish_timed_out);
    }

    void await_reminder() { set_deadline(join_news_.next_look(), AgentEvent::reminder_due); }

    // The machine waits for something else, but no longer than this.
    void set_deadline(Deadline deadline, AgentEvent event) {
        timer_.expires_at(deadline);
        timer_.async_wait([this, event](boost::system::error_code cancelled) {
            if (!cancelled) handle(event);
        });
    }

    void leave() {
        late_name_.reset();
        link_->close({});
        inquiry_.stop();
        runner_->hang_up();
        timer_.cancel();
        log_.debug("the job is over; showing what is left of the workers' output");
        node_->output().drain(
            [this] { handle(AgentEvent::output_shown); },
            job_.is_hurried() ? OutputPump::kShortConsoleTimeout : OutputPump::kConsoleTimeout);
    }

    // Fixes the exit code and says why the job ended.
    void report() {
        for (const std::string& loss : node_->close_output()) log_.error(loss);
        exit_code_ = end_job(job_.ending(), options_, node_->last_round(), log_, watchers_);
        handle(AgentEvent::reported);
    }

    void await_guests() {
        if (!job_.has_last_word() || link_->is_over()) return handle(AgentEvent::guests_gone);
        set_deadline(Clock::now() + kGoodbyeTimeout, AgentEvent::guests_gone);
    }

    boost::asio::io_context context_{1};
    LaunchOptions options_;
    LauncherLog& log_;
    Watchers watchers_;
    AgentMachine machine_;
    JobKnowledge job_{unix_time_now_ms()};
    std::unique_ptr<ProcessRunner> runner_;
    AgentSignals signals_;
    boost::asio::steady_timer timer_;
    FailureInquiry inquiry_;
    JoinNews join_news_;
    std::optional<LimitTimer> limit_;
    std::optional<NodeWorkers> node_;
    std::optional<WorkerNetwork> network_;
    std::unique_ptr<RendezvousLink> link_;
    std::optional<LateName> late_name_;
    std::optional<LeaseEnd> lease_end_;  // as the link says
    int exit_code_ = kExitInternal;
};

}  // namespace

int run_agent(LaunchOptions options, LauncherLog& log, const Watchers& watchers,
              const RunnerMaker& make_runner) {
    const RunnerMaker guardian = [workers = static_cast<int>(options.workers.size())](const auto& executor,
                                                                                      auto on_trouble) {
        return make_guardian(executor, workers, std::move(on_trouble));
    };
    return Agent(std::move(options), log, watchers, make_runner ? make_runner : guardian).run();
}

}  // namespace ddprun::inline launch
