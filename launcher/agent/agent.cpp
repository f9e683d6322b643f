#include "launcher/agent/agent.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/agent_signals.hpp"
#include "launcher/agent/carrier_interface.hpp"
#include "launcher/agent/end_of_job.hpp"
#include "launcher/agent/job_knowledge.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/agent/join_status.hpp"
#include "launcher/agent/node_workers.hpp"
#include "launcher/guardian/guardian.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/coordinator/coordinator_client.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/rendezvous_server.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {

using Clock = std::chrono::steady_clock;

class Agent::Impl {
  public:
    Impl(LaunchOptions options, Console& console, AgentWatcher* watcher, const RunnerMaker& make_runner)
        : options_(std::move(options)),
          console_(console),
          watcher_(watcher),
          runner_(
              make_runner(context_.get_executor(), [this](const std::string& what) { node_->say(what); })),
          signals_(context_.get_executor(), options_, signal_events()),
          limit_(context_),
          join_status_(Clock::now(), kFirstTroubleDelay, options_.join_timeout,
                       JoinStatus::advice_to(options_.node_rank)) {}

    int run() {
        if (options_.node_rank == 0) {
            server_.emplace(server_options_of(options_), [this] {
                boost::asio::post(context_, [this] { handle(AgentEvent::guests_gone); });
            });
            options_.master.port = server_->port();
        }
        node_.emplace(context_.get_executor(), *runner_, options_);
        signals_.watch();
        node_->explain(rendezvous_text(options_));
        if (watcher_ != nullptr)
            watcher_->began(context_.get_executor(),
                            {.status = [this] { return job_.status(machine_.state(), node_->status()); },
                             .signal = [this](int signal) { signals_.take(signal); }});
        client_.emplace(context_.get_executor(), server_ ? server_->own_endpoint() : options_.master,
                        hello_of(options_, watcher_ != nullptr || !options_.result_file.empty()),
                        Clock::now() + options_.join_timeout, client_events());
        client_->join();
        await_reminder();
        context_.run();
        return exit_code_;
    }

  private:
    CoordinatorClientEvents client_events() {
        return {.on_message =
                    [this](const ControlMessage& message) {
                        std::visit([this](const auto& one) { receive(one); }, message);
                        if (const auto event = job_.learn(message)) handle(*event);
                    },
                .on_trouble =
                    [this](const std::string& cause) {
                        node_->inform(join_status_.trouble(cause, Clock::now()));
                    },
                .on_lost = [this](const std::string& cause, bool gave_up) { lose(cause, gave_up); }};
    }

    AgentSignalEvents signal_events() {
        return {.on_ending = [this](int signal) { handle(job_.learn_signal(signal)); },
                // The coordinator sends it back to every agent, this one included.
                .on_forward =
                    [this](int signal, bool requeue) {
                        client_->send(NoticeSignal{job_.round().round, signal, requeue});
                    },
                .on_window = [this] { node_->window_changed(); },
                .on_stop = [this] { node_->freeze(); },
                .on_continue = [this] { node_->thaw(); }};
    }

    RoundEvents round_events() {
        return {.on_failure = [this](const Failure& failure) { handle(job_.learn_failure(failure)); },
                .on_gone = [this](const auto& unkillable) { workers_gone(unkillable); },
                .on_dying = [this](const WorkerDying& dying) { client_->send(dying); }};
    }

    void receive(const Waiting& waiting) { node_->inform(join_status_.waiting(waiting)); }
    void receive(const PeerRefused& other) { node_->inform(JoinStatus::refused(other)); }
    void receive(const NoticeSignal& notice) { node_->signal_all(notice.signal); }
    void receive(const PeerDying& dying) { node_->peer_died(dying); }
    void receive(const Restarting& restarting) {
        node_->announce(restarting);
        limit_finish(std::chrono::milliseconds(restarting.delay_ms));
    }
    template <typename Other>
    void receive(const Other&) {}

    void lose(const std::string& cause, bool gave_up) {
        if (gave_up) return handle(job_.learn_refusal(join_status_.given_up(cause)));
        if (machine_.state() == AgentState::joining) {
            node_->inform(join_status_.trouble(cause, Clock::now()));
        } else {
            job_.learn_loss(options_.master.host, cause);
        }
        handle(AgentEvent::connection_lost);
    }

    void workers_gone(const std::vector<UnkillableWorker>& unkillable) {
        node_->warn_of(unkillable);
        const RoundLedger& ledger = node_->last_round()->ledger();
        for (RankEnds& ends : as_messages(job_.round().round, ledger.ends())) client_->send(std::move(ends));
        handle(ledger.all_zero() && unkillable.empty() ? AgentEvent::workers_succeeded
                                                       : AgentEvent::workers_gone);
    }

    void handle(AgentEvent event) {
        const AgentState before = machine_.state();
        const AgentAction action = machine_.handle(event);
        node_->explain(transition_text(before, event, machine_.state()));
        carry_out(action);
    }

    void carry_out(AgentAction action) {
        if (const auto message = job_.message_for(action)) client_->send(*message);
        switch (action) {
            case AgentAction::none:
            case AgentAction::report_success: break;
            case AgentAction::join_again: return client_->join();
            case AgentAction::remind:
                node_->inform(join_status_.remind(Clock::now()));
                return await_reminder();
            case AgentAction::start_workers: return start_workers();
            case AgentAction::report_failure:
            case AgentAction::stop_workers: return stop_workers(job_.stop_signal());
            case AgentAction::report_signal: return stop_workers(job_.signal());
            case AgentAction::tell_signal:
                // Nothing else would end the wait of a node whose workers are done.
                if (machine_.state() == AgentState::draining) limit_finish({});
                break;
            case AgentAction::kill_workers: return node_->kill_now();
            case AgentAction::report_gone: return report_gone();
            case AgentAction::leave: return leave();
            case AgentAction::report: return report();
            case AgentAction::await_goodbye:
                return client_->close([this] { handle(AgentEvent::goodbye_said); });
            case AgentAction::await_guests: return await_guests();
            case AgentAction::end: return context_.stop();
        }
    }

    void start_workers() {
        limit_.cancel();
        const RoundReady& round = job_.round();
        if (options_.nnodes > 1)
            node_->explain(name_carrier_interface(options_.environment,
                                                  server_ ? round.reached_at : client_->local_address(),
                                                  local_addresses()));
        node_->start(round, round_events());
        if (watcher_ != nullptr && machine_.state() == AgentState::running) watcher_->workers_run(round);
    }

    void stop_workers(int signal) {
        node_->explain("stopping the workers by " + signal_text(signal) + job_.stop_reason());
        node_->stop(signal);
    }

    void report_gone() {
        const WorkersGone gone = node_->last_round()->gone();
        if (gone.failure) job_.learn_failure(*gone.failure);
        client_->send(gone);
        limit_finish({});
    }

    // The other nodes have their own grace periods, and there may be a pause before the next round; after
    // that this agent goes with what it knows.
    void limit_finish(std::chrono::milliseconds pause) {
        limit(Clock::now() + options_.shutdown_timeout + pause + kFinishPatience,
              AgentEvent::finish_timed_out);
    }

    void await_reminder() { limit(join_status_.reminder_due(), AgentEvent::reminder_due); }
    // The machine waits for something else, but no longer than this.
    void limit(Clock::time_point end, AgentEvent event) {
        limit_.expires_at(end);
        limit_.async_wait([this, event](boost::system::error_code cancelled) {
            if (!cancelled) handle(event);
        });
    }

    void leave() {
        runner_->hang_up();
        limit_.cancel();
        client_->close({});
        node_->explain("the job is over; showing what is left of the workers' output");
        node_->output().drain(
            [this] { handle(AgentEvent::output_shown); },
            job_.is_hurried() ? OutputPump::kShortConsolePatience : OutputPump::kConsolePatience);
    }

    // Fixes the exit code and says why the job ended.
    void report() {
        for (const std::string& loss : node_->output().stop()) console_.say(loss);
        JobEnding ending = job_.ending();
        complete_ending(ending, options_, node_->last_round());
        exit_code_ = show_ending(ending, options_, node_->last_round(), console_, watcher_);
        handle(AgentEvent::reported);
    }

    void await_guests() {
        if (!server_ || !job_.has_last_word() || server_->is_over()) return handle(AgentEvent::guests_gone);
        limit(Clock::now() + kGoodbyeTimeout, AgentEvent::guests_gone);
    }

    boost::asio::io_context context_{1};
    LaunchOptions options_;
    Console& console_;
    AgentWatcher* watcher_;
    AgentMachine machine_;
    JobKnowledge job_{unix_time_now_ms()};
    std::unique_ptr<ProcessRunner> runner_;
    AgentSignals signals_;
    boost::asio::steady_timer limit_;
    JoinStatus join_status_;
    std::optional<RendezvousServer> server_;
    std::optional<CoordinatorClient> client_;
    std::optional<NodeWorkers> node_;
    int exit_code_ = kExitInternal;
};

std::unique_ptr<ProcessRunner> Agent::make_guardian(const boost::asio::any_io_executor& executor,
                                                    std::function<void(const std::string&)> on_trouble) {
    return std::make_unique<GuardianRunner>(executor, std::move(on_trouble));
}

Agent::Agent(LaunchOptions options, Console& console, AgentWatcher* watcher, const RunnerMaker& make_runner)
    : impl_(std::make_unique<Impl>(std::move(options), console, watcher, make_runner)) {}

Agent::~Agent() = default;

int Agent::run() { return impl_->run(); }

}  // namespace ddprun
