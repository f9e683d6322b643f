#include "launcher/agent/agent.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/agent_signals.hpp"
#include "launcher/agent/carrier_interface.hpp"
#include "launcher/agent/end_of_job.hpp"
#include "launcher/agent/job_identity.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/agent/join_status.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/guardian/guardian.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/coordinator/coordinator_client.hpp"
#include "rendezvous/coordinator/culprit.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/rendezvous_server.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

namespace {
// A refusal may hold two commands.
constexpr std::size_t kMaxRefusalShown = 1200;
}  // namespace

class Agent::Impl {
  public:
    Impl(LaunchOptions options, Console& console, AgentWatcher* watcher)
        : options_(std::move(options)),
          console_(console),
          watcher_(watcher),
          runner_(context_.get_executor(), [this](const std::string& what) { say(what); }),
          signals_(context_.get_executor(), options_, signal_events()),
          finish_limit_(context_),
          reminder_(context_),
          join_status_(Clock::now(), kFirstTroubleDelay, options_.join_timeout,
                       options_.node_rank == 0 ? "each other node needs a --node-rank of its own and "
                                                 "--master-addr with an address that leads here"
                                               : "") {}

    int run() {
        host_if_first();
        const OutputPumpSettings settings{.temporary_folder = temporary_folder(options_.environment)};
        pump_.emplace(context_.get_executor(), options_.output, settings,
                      [this](const std::string& notice) { say(notice); });
        signals_.watch();
        explain("node " + std::to_string(options_.node_rank) + " of " + std::to_string(options_.nnodes) +
                (server_ ? " serves" : " joins") + " the rendezvous at " + to_string(options_.master));
        if (watcher_ != nullptr)
            watcher_->began(context_.get_executor(),
                            {[this] { return status(); }, [this](int signal) { signals_.take(signal); }});
        client_.emplace(context_.get_executor(), coordinator_endpoint(),
                        hello_of(options_, watcher_ != nullptr || !options_.result_file.empty()),
                        Clock::now() + options_.join_timeout, client_events());
        client_->join();
        await_reminder();
        context_.run();
        return exit_code_;
    }

  private:
    // --- set-up

    void host_if_first() {
        if (options_.node_rank != 0) return;
        server_.emplace(server_options_of(options_),
                        [this] { asio::post(context_, [this] { host_may_leave(); }); });
        options_.master.port = server_->port();
    }

    Endpoint coordinator_endpoint() const { return server_ ? server_->own_endpoint() : options_.master; }

    CoordinatorClientEvents client_events() {
        return {.on_message = [this](const ControlMessage& message) { receive(message); },
                .on_trouble =
                    [this](const std::string& cause) { inform(join_status_.trouble(cause, Clock::now())); },
                .on_lost = [this](const std::string& cause, bool gave_up) { lose(cause, gave_up); }};
    }

    void await_reminder() {
        reminder_.expires_at(join_status_.reminder_due());
        reminder_.async_wait([this](boost::system::error_code cancelled) {
            if (cancelled || machine_.state() != AgentState::joining) return;
            inform(join_status_.remind(Clock::now()));
            await_reminder();
        });
    }

    AgentSignalEvents signal_events() {
        return {.on_ending = [this](int signal) { end_by(signal); },
                // The coordinator sends it back to every agent, this one included.
                .on_forward =
                    [this](int signal, bool requeue) {
                        client_->send(NoticeSignal{round_.round, signal, requeue});
                    },
                .on_window =
                    [this] {
                        pump_->window_changed();
                        if (workers_) workers_->window_changed();
                    },
                .on_stop =
                    [this] {
                        if (workers_) workers_->freeze();
                    },
                .on_continue =
                    [this] {
                        if (workers_) workers_->thaw();
                    }};
    }

    void end_by(int signal) {
        if (signal_ == 0) signal_ = signal;
        if (signal == SIGINT) ++interrupts_;
        if (interrupts_ > 1 && machine_.state() == AgentState::done) return conclude();
        handle(interrupts_ > 1 ? AgentEvent::interrupted_again : AgentEvent::signal_received);
    }

    // --- events

    void receive(const ControlMessage& message) {
        if (const auto* waiting = std::get_if<Waiting>(&message)) {
            inform(join_status_.waiting(*waiting));
        } else if (const auto* other = std::get_if<PeerRefused>(&message)) {
            inform("refused an agent on " + harmless_line(other->host) + " (pid " +
                   std::to_string(other->pid) + "): " + harmless_line(other->reason, kMaxRefusalShown));
        } else if (const auto* refused = std::get_if<Refused>(&message)) {
            refusal_ = *refused;
            handle(AgentEvent::refused);
        } else if (const auto* ready = std::get_if<RoundReady>(&message)) {
            round_ = *ready;
            cause_.reset();
            own_failure_.reset();
            handle(AgentEvent::round_ready);
        } else if (const auto* notice = std::get_if<NoticeSignal>(&message)) {
            if (workers_) workers_->signal_all(notice->signal);
        } else if (const auto* dying = std::get_if<PeerDying>(&message)) {
            if (workers_ && dying->round == round_.round) workers_->peer_died(dying->life);
        } else if (const auto* stop = std::get_if<Stop>(&message)) {
            cause_ = stop->cause;
            handle(AgentEvent::stop_ordered);
        } else if (const auto* restarting = std::get_if<Restarting>(&message)) {
            announce(*restarting);
        } else if (const auto* ends = std::get_if<RankEnds>(&message)) {
            rank_ends_.insert(rank_ends_.end(), ends->ends.begin(), ends->ends.end());
        } else if (const auto* finish = std::get_if<Finish>(&message)) {
            finish_ = *finish;
            if (finish->failed) cause_ = finish->cause;
            handle(AgentEvent::finish_ordered);
        }
    }

    void announce(const Restarting& restarting) {
        // No report follows that would show the last words of a rank which is kept off the screen.
        if (own_failure_ && own_failure_->rank == witness_of(restarting.cause))
            pump_->replay_stderr(own_failure_->local_rank);
        say(to_text(restarting));
        limit_finish(std::chrono::milliseconds(restarting.delay_ms));
    }

    void lose(const std::string& cause, bool gave_up) {
        if (gave_up) {
            refusal_ = join_status_.given_up(cause);
            return handle(AgentEvent::refused);
        }
        if (machine_.state() == AgentState::joining) {
            inform(join_status_.trouble(cause, Clock::now()));
        } else if (!cause_) {
            cause_ = Failure{.kind = Failure::Kind::node_lost, .node_rank = 0, .host = options_.master.host};
            cause_->exit_code = kExitUnavailable;
            cause_->message = cause;
        }
        handle(AgentEvent::connection_lost);
    }

    void worker_failed(const Failure& failure) {
        own_failure_ = failure;
        handle(AgentEvent::worker_failed);
    }

    void workers_gone(const std::vector<UnkillableWorker>& unkillable) {
        for (const UnkillableWorker& worker : unkillable) {
            say(to_string(worker) + " does not end even by SIGKILL; this node needs attention");
        }
        for (RankEnds& ends : as_messages(round_.round, workers_->ledger().ends()))
            client_->send(std::move(ends));
        const bool success =
            machine_.state() == AgentState::running && workers_->ledger().all_zero() && unkillable.empty();
        handle(success ? AgentEvent::workers_succeeded : AgentEvent::workers_gone);
    }

    // --- actions

    void handle(AgentEvent event) {
        switch (machine_.handle(event)) {
            case AgentAction::none: break;
            case AgentAction::join_again: client_->join(); break;
            case AgentAction::start_workers: start_workers(); break;
            case AgentAction::report_success: client_->send(WorkersSucceeded{round_.round}); break;
            case AgentAction::report_failure:
                client_->send(WorkerFailed{round_.round, *own_failure_});
                stop_workers(SIGTERM);
                break;
            case AgentAction::report_signal:
                client_->send(AgentSignalled{round_.round, signal_});
                stop_workers(signal_);
                break;
            case AgentAction::tell_signal:
                client_->send(AgentSignalled{round_.round, signal_});
                // Nothing else would end the wait of a node whose workers are done.
                if (machine_.state() == AgentState::draining) limit_finish({});
                break;
            case AgentAction::stop_workers: stop_workers(stop_signal()); break;
            case AgentAction::kill_workers: workers_->kill_now(); break;
            case AgentAction::report_gone: report_gone(); break;
            case AgentAction::say_goodbye:
            case AgentAction::leave: leave(); break;
        }
    }

    void start_workers() {
        finish_limit_.cancel();
        reminder_.cancel();
        joined_ = true;
        if (options_.nnodes > 1) {
            explain(name_carrier_interface(options_.environment,
                                           server_ ? round_.reached_at : client_->local_address(),
                                           local_addresses()));
        }
        workers_.emplace(context_.get_executor(), runner_, *pump_, options_, round_, host_name(),
                         RoundEvents{.on_failure = [this](const Failure& failure) { worker_failed(failure); },
                                     .on_gone = [this](const auto& unkillable) { workers_gone(unkillable); },
                                     .on_dying = [this](const WorkerDying& dying) { client_->send(dying); },
                                     .on_notice = [this](const std::string& text) { inform(text); },
                                     .on_word = [this](const std::string& text) { explain(text); }});
        explain("round " + std::to_string(round_.round) + " of job " + round_.job_id);
        workers_->start();
        if (watcher_ != nullptr && machine_.state() == AgentState::running) watcher_->workers_run(round_);
    }

    AgentStatus status() const {
        return {.state = std::string(to_text(machine_.state())),
                .job_id = round_.job_id,
                .round = round_.round,
                .restart_count = round_.restart_count,
                .max_restarts = round_.max_restarts,
                .world_size = round_.world_size,
                .workers = workers_ ? workers_->status() : std::vector<WorkerStatus>()};
    }

    void report_gone() {
        const auto failure = workers_->ledger().failure();
        if (failure) own_failure_ = *failure;
        client_->send(WorkersGone{.round = round_.round,
                                  .all_zero = workers_->ledger().all_zero(),
                                  .progressed = workers_->progressed(),
                                  .failed = failure.has_value(),
                                  .failure = failure.value_or(Failure{})});
        limit_finish({});
    }

    // A signal that one agent was sent reaches the workers of all nodes; everything else ends them by
    // SIGTERM.
    int stop_signal() const {
        return cause_ && cause_->kind == Failure::Kind::signalled ? cause_->signal : SIGTERM;
    }

    void stop_workers(int signal) {
        const auto& cause = cause_ ? cause_ : own_failure_;
        explain("stopping the workers by " + signal_text(signal) +
                (cause          ? ": " + to_text(*cause)
                 : signal_ != 0 ? ": asked to by " + signal_text(signal_)
                                : ""));
        if (workers_) workers_->stop(signal);
    }

    // The other nodes have their own grace periods, and there may be a pause before the next round; after
    // that this agent goes with what it knows.
    void limit_finish(std::chrono::milliseconds pause) {
        finish_limit_.expires_after(options_.shutdown_timeout + pause + kFinishPatience);
        finish_limit_.async_wait([this](boost::system::error_code cancelled) {
            if (!cancelled) handle(AgentEvent::finish_timed_out);
        });
    }

    // --- the end

    void leave() {
        finish_limit_.cancel();
        // While the job still gathers, or without the coordinator's last word, there is no goodbye to wait
        // for.
        if (!finish_ && !refusal_) job_over_ = true;
        client_->close([this] {
            left_ = true;
            end_if_free();
        });
        explain("the job is over; showing what is left of the workers' output");
        // The report is the last thing on the screen.
        pump_->drain([this] { conclude(); },
                     interrupts_ > 1 ? OutputPump::kShortConsolePatience : OutputPump::kConsolePatience);
        if (!server_) return;
        finish_limit_.expires_after(kGoodbyeTimeout);
        finish_limit_.async_wait([this](boost::system::error_code cancelled) {
            if (!cancelled) host_may_leave();
        });
    }

    // Fixes the exit code and says why the job ended.
    void conclude() {
        if (std::exchange(reported_, true)) return;
        for (const std::string& loss : pump_->stop()) console_.say(loss);
        JobEnding ending{.cause = cause_ ? cause_ : own_failure_,
                         .finish = finish_,
                         .refusal = refusal_,
                         .signal = signal_,
                         .joined = joined_,
                         .round = round_,
                         .rank_ends = rank_ends_};
        ending.start_unix_ms = start_unix_ms_;
        const RoundWorkers* workers = workers_ ? &*workers_ : nullptr;
        complete_ending(ending, options_, workers);
        exit_code_ = show_ending(ending, options_, workers, console_, watcher_);
        end_if_free();
    }

    void host_may_leave() {
        job_over_ = true;
        end_if_free();
    }

    void end_if_free() {
        if (left_ && reported_ && (!server_ || job_over_)) context_.stop();
    }

    // The launcher's own lines wait their turn behind the workers' and never stop supervision.
    void say(const std::string& text) {
        if (!text.empty()) pump_->announce("ddprun: " + text);
    }
    void inform(const std::string& text) {
        if (options_.verbosity != Verbosity::quiet) say(text);
    }
    void explain(const std::string& text) {
        if (options_.verbosity == Verbosity::verbose) say(text);
    }

    asio::io_context context_{1};
    LaunchOptions options_;
    Console& console_;
    AgentWatcher* watcher_;
    AgentMachine machine_;
    GuardianRunner runner_;
    AgentSignals signals_;
    asio::steady_timer finish_limit_;
    asio::steady_timer reminder_;
    JoinStatus join_status_;
    std::optional<RendezvousServer> server_;
    std::optional<CoordinatorClient> client_;
    std::optional<OutputPump> pump_;
    std::optional<RoundWorkers> workers_;

    RoundReady round_;
    std::optional<Failure> cause_;        // the job's first failure, as the coordinator says
    std::optional<Failure> own_failure_;  // the first one of this node
    std::optional<Refused> refusal_;
    std::optional<Finish> finish_;
    int signal_ = 0;                  // the first one this agent was sent
    int interrupts_ = 0;              // how many of them were SIGINT
    std::vector<RankEnd> rank_ends_;  // of all nodes, for the result file
    std::int64_t start_unix_ms_ = unix_time_now_ms();
    bool joined_ = false;  // a round began here
    bool left_ = false;
    bool reported_ = false;
    bool job_over_ = false;
    int exit_code_ = kExitInternal;
};

Agent::Agent(LaunchOptions options, Console& console, AgentWatcher* watcher)
    : impl_(std::make_unique<Impl>(std::move(options), console, watcher)) {}

Agent::~Agent() = default;

int Agent::run() { return impl_->run(); }

}  // namespace ddprun
