#include "launcher/agent.hpp"

#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <climits>
#include <optional>

#include "launcher/agent_machine.hpp"
#include "launcher/failure_report.hpp"
#include "launcher/join_status.hpp"
#include "launcher/local_runner.hpp"
#include "launcher/worker_group.hpp"
#include "rendezvous/check.hpp"
#include "rendezvous/coordinator_client.hpp"
#include "rendezvous/rendezvous_server.hpp"

namespace ddprun {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

namespace {

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
    return name.data();
}

// Different for every launch, also for two with the same --rdzv-id at the same time.
std::string make_job_id(const std::string& run_id) {
    std::array<unsigned char, 16> random{};
    check(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()),
          "getrandom failed");
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string id = run_id + "-";
    for (unsigned char byte : random) {
        id += kDigits[byte >> 4];
        id += kDigits[byte & 15];
    }
    return id;
}

}  // namespace

class Agent::Impl {
  public:
    Impl(LaunchOptions options, Console& console)
        : options_(std::move(options)),
          console_(console),
          runner_(context_.get_executor()),
          signals_(context_),
          finish_limit_(context_),
          join_status_(Clock::now(), kFirstTroubleDelay) {}

    int run() {
        host_if_first();
        watch_signals();
        client_.emplace(context_.get_executor(), coordinator_endpoint(), hello(),
                        Clock::now() + options_.join_timeout, client_events());
        client_->join();
        context_.run();
        return exit_code_;
    }

  private:
    // --- set-up
    // ---------------------------------------------------------------------------------------------------

    void host_if_first() {
        if (options_.node_rank != 0) return;
        RendezvousServerOptions server;
        server.scope = options_.nnodes == 1 ? ListenScope::loopback : ListenScope::any;
        server.port = options_.master.port;
        server.coordinator = {.version = DDPRUN_VERSION,
                              .run_id = options_.run_id,
                              .job_id = make_job_id(options_.run_id),
                              .nnodes = options_.nnodes,
                              .join_timeout = options_.join_timeout};
        server_.emplace(server, [this] { asio::post(context_, [this] { host_may_leave(); }); });
        options_.master.port = server_->port();
    }

    // The host reaches itself over loopback, whatever address the others use for it.
    Endpoint coordinator_endpoint() const {
        return server_ ? Endpoint{"127.0.0.1", options_.master.port} : options_.master;
    }

    Hello hello() const {
        return {.version = DDPRUN_VERSION,
                .run_id = options_.run_id,
                .node_rank = options_.node_rank,
                .nnodes = options_.nnodes,
                .local_world_size = static_cast<int>(options_.workers.size()),
                .role = options_.role,
                .host = host_name(),
                .pid = ::getpid()};
    }

    CoordinatorClientEvents client_events() {
        return {.on_message = [this](const ControlMessage& message) { receive(message); },
                .on_trouble =
                    [this](const std::string& cause) { say(join_status_.trouble(cause, Clock::now())); },
                .on_lost = [this](const std::string& cause, bool gave_up) { lose(cause, gave_up); }};
    }

    void watch_signals() {
        for (int signal : {SIGTERM, SIGINT, SIGQUIT}) signals_.add(signal);
        if (!options_.hangup_ignored) signals_.add(SIGHUP);
        wait_for_signal();
    }

    void wait_for_signal() {
        signals_.async_wait([this](boost::system::error_code cancelled, int signal) {
            if (cancelled) return;
            wait_for_signal();
            if (signal_ == 0) signal_ = signal;
            if (signal == SIGINT) ++interrupts_;
            handle(interrupts_ > 1 ? AgentEvent::interrupted_again : AgentEvent::signal_received);
        });
    }

    // --- events
    // ---------------------------------------------------------------------------------------------------

    void receive(const ControlMessage& message) {
        if (const auto* waiting = std::get_if<Waiting>(&message)) {
            say(join_status_.waiting(*waiting));
        } else if (const auto* refused = std::get_if<Refused>(&message)) {
            refusal_ = *refused;
            handle(AgentEvent::refused);
        } else if (const auto* ready = std::get_if<RoundReady>(&message)) {
            round_ = *ready;
            handle(AgentEvent::round_ready);
        } else if (const auto* stop = std::get_if<Stop>(&message)) {
            cause_ = stop->cause;
            handle(AgentEvent::stop_ordered);
        } else if (const auto* finish = std::get_if<Finish>(&message)) {
            finish_ = *finish;
            if (finish->failed) cause_ = finish->cause;
            handle(AgentEvent::finish_ordered);
        }
    }

    void lose(const std::string& cause, bool gave_up) {
        if (gave_up) {
            auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count();
            refusal_ = {"node 0 was not reached within " + std::to_string(seconds) + " s: " + cause +
                            "; --rdzv-conf join_timeout=SECONDS sets how long to wait",
                        kExitUnavailable};
            return handle(AgentEvent::refused);
        }
        if (machine_.state() == AgentState::joining) {
            say(join_status_.trouble(cause, Clock::now()));
        } else if (!cause_) {
            cause_ = Failure{.kind = Failure::Kind::node_lost, .node_rank = 0, .host = options_.master.host};
            cause_->exit_code = kExitUnavailable;
            cause_->message = cause;
        }
        handle(AgentEvent::connection_lost);
    }

    void worker_ended(const WorkerEnd& end) {
        all_zero_ = all_zero_ && succeeded(end.status);
        if (succeeded(end.status) || end.stopped_by_us) return;
        Failure failure = failure_of(end.rank, end.local_rank, end.pid);
        failure.exit_code = shell_code(end.status);
        if (const auto* signaled = std::get_if<Signaled>(&end.status)) {
            failure.signal = signaled->signal;
            failure.core_dumped = signaled->core_dumped;
        }
        worker_failed(failure);
    }

    Failure failure_of(int rank, int local_rank, pid_t pid) const {
        Failure failure{
            .kind = Failure::Kind::worker_failed, .node_rank = options_.node_rank, .host = host_name()};
        failure.rank = rank;
        failure.local_rank = local_rank;
        failure.pid = pid;
        return failure;
    }

    void worker_failed(const Failure& failure) {
        if (!own_failure_) own_failure_ = failure;
        handle(AgentEvent::worker_failed);
    }

    void workers_gone(const std::vector<UnkillableWorker>& unkillable) {
        for (const UnkillableWorker& worker : unkillable) {
            say("rank " + std::to_string(worker.rank) + " (pid " + std::to_string(worker.pid) +
                ") does not end even by SIGKILL; this node needs attention");
        }
        const bool success = machine_.state() == AgentState::running && all_zero_ && unkillable.empty();
        handle(success ? AgentEvent::workers_succeeded : AgentEvent::workers_gone);
    }

    // --- actions
    // --------------------------------------------------------------------------------------------------

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
            case AgentAction::stop_workers: stop_workers(stop_signal()); break;
            case AgentAction::kill_workers: group_->kill_now(); break;
            case AgentAction::report_gone:
                client_->send(WorkersGone{round_.round, all_zero_});
                limit_finish();
                break;
            case AgentAction::say_goodbye:
            case AgentAction::leave: leave(); break;
        }
    }

    void start_workers() {
        group_.emplace(
            context_.get_executor(), runner_,
            WorkerGroupEvents{.on_end = [this](const WorkerEnd& end) { worker_ended(end); },
                              .on_all_gone = [this](const auto& unkillable) { workers_gone(unkillable); }});
        auto failure = group_->start_all(worker_specs());
        if (!failure) return;
        all_zero_ = false;
        Failure report = failure_of(failure->rank, failure->local_rank, 0);
        report.exit_code = failure->failure.exit_code;
        report.message = failure->failure.text;
        worker_failed(report);
    }

    std::vector<WorkerSpec> worker_specs() const {
        std::vector<WorkerSpec> specs;
        for (std::size_t i = 0; i < options_.workers.size(); ++i) {
            const int local_rank = static_cast<int>(i);
            WorkerIdentity identity;
            identity.rank = round_.base_rank + local_rank;
            identity.local_rank = local_rank;
            identity.world_size = round_.world_size;
            identity.local_world_size = static_cast<int>(options_.workers.size());
            identity.group_rank = round_.group_rank;
            identity.group_world_size = round_.group_world_size;
            identity.role = options_.role;
            identity.role_rank = round_.role_base_rank + local_rank;
            identity.role_world_size = round_.role_world_size;
            identity.master_addr = options_.master.host;
            identity.master_port = options_.master.port;
            identity.run_id = options_.run_id;
            identity.job_id = round_.job_id;
            identity.round = round_.round;
            identity.restart_count = round_.restart_count;

            Environment environment = options_.environment;
            for (const auto& [name, value] : options_.workers[i].additions) environment[name] = value;
            WorkerSpec spec;
            spec.argv = options_.workers[i].argv;
            spec.environment = worker_environment(environment, identity);
            spec.rank = identity.rank;
            spec.local_rank = local_rank;
            spec.ignore_hangup = options_.hangup_ignored;
            specs.push_back(std::move(spec));
        }
        return specs;
    }

    // A signal that one agent was sent reaches the workers of all nodes; everything else ends them by
    // SIGTERM.
    int stop_signal() const {
        return cause_ && cause_->kind == Failure::Kind::signalled ? cause_->signal : SIGTERM;
    }

    void stop_workers(int signal) {
        if (group_) group_->stop(signal, options_.shutdown_timeout);
    }

    // The other nodes have their own grace periods; after that this agent goes with what it knows.
    void limit_finish() {
        finish_limit_.expires_after(options_.shutdown_timeout + kFinishPatience);
        finish_limit_.async_wait([this](boost::system::error_code cancelled) {
            if (!cancelled) handle(AgentEvent::finish_timed_out);
        });
    }

    // --- the end
    // --------------------------------------------------------------------------------------------------

    void leave() {
        finish_limit_.cancel();
        conclude();
        client_->close([this] {
            left_ = true;
            end_if_free();
        });
        // While the job still gathers, or without the coordinator's last word, there is no goodbye to wait
        // for.
        if (!finish_ && !refusal_) job_over_ = true;
        finish_limit_.expires_after(kGoodbyeTimeout);
        finish_limit_.async_wait([this](boost::system::error_code cancelled) {
            if (!cancelled) host_may_leave();
        });
    }

    // Says why the job ended and fixes the exit code.
    void conclude() {
        const auto cause = cause_ ? cause_ : own_failure_;
        if (finish_) {
            exit_code_ = finish_->exit_code;
        } else if (refusal_) {
            exit_code_ = refusal_->exit_code;
            say(refusal_->reason);
            return;
        } else if (cause) {
            exit_code_ =
                cause->kind == Failure::Kind::signalled ? kExitSignalBase + cause->signal : cause->exit_code;
        } else if (signal_ != 0) {
            exit_code_ = kExitSignalBase + signal_;
            say("ended by " + signal_text(signal_) + " before any worker was started");
            return;
        }
        if (cause) say(failure_report(options_.entry_name, *cause, exit_code_));
    }

    void host_may_leave() {
        job_over_ = true;
        end_if_free();
    }

    void end_if_free() {
        if (left_ && (!server_ || job_over_)) context_.stop();
    }

    void say(const std::string& text) { console_.say(text); }

    asio::io_context context_{1};
    LaunchOptions options_;
    Console& console_;
    AgentMachine machine_;
    LocalRunner runner_;
    asio::signal_set signals_;
    asio::steady_timer finish_limit_;
    JoinStatus join_status_;
    std::optional<RendezvousServer> server_;
    std::optional<CoordinatorClient> client_;
    std::optional<WorkerGroup> group_;

    RoundReady round_;
    std::optional<Failure> cause_;        // the job's first failure, as the coordinator says
    std::optional<Failure> own_failure_;  // the first one of this node
    std::optional<Refused> refusal_;
    std::optional<Finish> finish_;
    bool all_zero_ = true;
    int signal_ = 0;      // the first one this agent was sent
    int interrupts_ = 0;  // how many of them were SIGINT
    bool left_ = false;
    bool job_over_ = false;
    int exit_code_ = kExitInternal;
};

Agent::Agent(LaunchOptions options, Console& console)
    : impl_(std::make_unique<Impl>(std::move(options), console)) {}

Agent::~Agent() = default;

int Agent::run() { return impl_->run(); }

}  // namespace ddprun
