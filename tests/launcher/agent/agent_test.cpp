// A whole agent, with its own rendezvous, and workers that live only on paper.
#include "launcher/agent/agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>

#include "launcher/agent/agent_link.hpp"
#include "launcher/features/features.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "tests/launcher/agent/worker_group_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// The test plays a worker's end; the rest of the group ends by whatever signal it is sent.
class ObedientRunner final : public ProcessRunner {
  public:
    explicit ObedientRunner(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

    std::variant<Started, StartFailure> start(const WorkerSpec&, WorkerObserver& observer) override {
        workers_.push_back(&observer);
        return Started{pid_of(workers_.size() - 1)};
    }
    void signal_worker(pid_t worker, int signal, SignalScope) override {
        if (signal == SIGCONT) return;
        for (std::size_t i = 0; i < workers_.size(); ++i) {
            if (pid_of(i) == worker) end(i, Signaled{signal, false});
        }
    }
    void sweep(std::chrono::milliseconds, std::function<void(const SweepResult&)> done) override {
        boost::asio::post(executor_, [done] { done({}); });
    }
    void forget(pid_t) override {}
    std::filesystem::path worker_cgroup(int) const override { return {}; }

    // Once.
    void end(std::size_t worker, ExitStatus status) {
        if (workers_.at(worker) == nullptr) return;
        boost::asio::post(
            executor_, [observer = std::exchange(workers_[worker], nullptr), pid = pid_of(worker), status] {
                observer->worker_used(pid, {1, 2, 3, 4});
                observer->worker_exited(pid, status);
                observer->worker_group_gone(pid);
            });
    }

  private:
    // Living processes, since it is looked whether workers are.
    static pid_t pid_of(std::size_t worker) { return worker % 2 == 0 ? ::getpid() : ::getppid(); }

    boost::asio::any_io_executor executor_;
    std::vector<WorkerObserver*> workers_;  // those that have not ended
};

// Writes down what it is told.
class Notes : public Feature {
  public:
    bool wants_all_ranks() const override { return wants_all; }
    void began(AgentControls&) override { lines.push_back("began"); }
    void heard(const ControlMessage&) override { lines.push_back("heard"); }
    void learnt(const AgentNews& news) override {
        if (std::holds_alternative<PlaceKnown>(news)) lines.push_back("place");
        if (std::holds_alternative<WorkerEnded>(news)) lines.push_back("worker ended");
        if (const auto* change = std::get_if<StateChanged>(&news))
            lines.push_back("state " + std::string(to_text(change->after)));
    }
    void workers_run(const RoundReady&) override { lines.push_back("workers run"); }
    std::optional<std::string> ended(const JobResult&) override {
        lines.push_back("ended");
        return "trouble";
    }

    Lines lines;
    bool wants_all = false;
};

// Runs an agent of one node with two workers; `play` is called in each round, once they run.
class Play : public Feature {
  public:
    using Act = std::function<void(Play&)>;

    explicit Play(Act play) : play_(std::move(play)) {}

    int run() {
        options.output.files = false;
        options.workers = {{{"program"}, {}}, {{"program"}, {}}};
        options.terminating_signals = {SIGUSR2};
        LauncherLog log(Verbosity::quiet);
        const SignalsBlocked signals_as_before;
        FeatureInputs inputs{
            .options = options, .log = log, .rdzv_backend = {}, .start = {}, .options_read = {}};
        const auto signals = make_launcher_signals(inputs);
        return run_agent(std::move(options), log, features(*signals),
                         [this](const auto& executor, const auto&) {
                             auto made = std::make_unique<ObedientRunner>(executor);
                             runner = made.get();
                             return made;
                         });
    }

    void began(AgentControls& agent) override { controls = &agent; }
    void learnt(const AgentNews& news) override {
        if (const auto* ended = std::get_if<WorkerEnded>(&news)) ends.push_back(*ended);
    }
    void workers_run(const RoundReady& place) override {
        round = place.round;
        states.push_back(controls->status().state);
        play_(*this);
    }
    std::optional<std::string> ended(const JobResult& told) override {
        result = told;
        states.push_back(controls->status().state);
        return {};
    }

    LaunchOptions options;  // of the run that is to come
    ObedientRunner* runner = nullptr;
    AgentControls* controls = nullptr;
    int round = 0;
    std::vector<WorkerEnded> ends;
    Lines states;
    JobResult result;

    std::vector<Feature*> others;  // likewise

  private:
    Features features(Feature& signals) {
        std::vector<Feature*> all{&signals, this};
        all.insert(all.end(), others.begin(), others.end());
        return all;
    }

    Act play_;
};

}  // namespace

TEST_CASE("an agent whose workers all succeed ends with 0") {
    Play play([](Play& self) {
        self.runner->end(0, Exited{0});
        self.runner->end(1, Exited{0});
    });
    CHECK(play.run() == 0);
    CHECK(play.states == Lines{"running", "reporting"});
    CHECK(play.result.outcome == Outcome::succeeded);
    CHECK(play.result.ranks.size() == 2);
    CHECK(play.result.ranks[1].host == play.result.host);
    REQUIRE(play.ends.size() == 2);
    CHECK(play.ends[1].end.rank == 1);
    CHECK(play.ends[1].use == ResourceUse{1, 2, 3, 4});
}

TEST_CASE("an agent tells all who watch it the same") {
    Play play([](Play& self) {
        self.runner->end(0, Exited{0});
        self.runner->end(1, Exited{0});
    });
    Notes first, second;
    second.wants_all = true;
    play.others = {&first, &second};
    CHECK(play.run() == 0);
    CHECK(first.lines == second.lines);
    CHECK(first.lines.front() == "began");
    CHECK(first.lines.back() == "state done");
    for (const char* line : {"place", "heard", "state running", "workers run", "worker ended", "ended"}) {
        CAPTURE(line);
        CHECK(std::find(first.lines.begin(), first.lines.end(), line) != first.lines.end());
    }
    CHECK_FALSE(Features({&first}).want_all_ranks());
    CHECK(Features({&first, &second}).want_all_ranks());
    CHECK(Features({&first, &second}).ended({}) == Lines{"trouble", "trouble"});
}

TEST_CASE("a worker's failure stops the others and is the agent's exit code") {
    Play play([](Play& self) { self.runner->end(1, Exited{7}); });
    CHECK(play.run() == 7);
    REQUIRE(play.result.first_failure);
    CHECK(play.result.first_failure->rank == 1);
    REQUIRE(play.result.ranks.size() == 2);
    CHECK(play.result.ranks[1].manner == RankEnd::Manner::stopped);
}

TEST_CASE("a failed round is followed by another as long as restarts are left") {
    Play play([](Play& self) {
        self.runner->end(2 * static_cast<std::size_t>(self.round), Exited{self.round == 0 ? 7 : 0});
        if (self.round == 1) self.runner->end(3, Exited{0});
    });
    play.options.restarts.max_restarts = 1;
    CHECK(play.run() == 0);
    CHECK(play.result.restart_count == 1);
    CHECK(play.states == Lines{"running", "running", "reporting"});
}

TEST_CASE("a signal to the agent goes to its workers and ends the job") {
    Play play([](Play& self) { self.controls->tell(SignalSent{SIGUSR2}); });
    CHECK(play.run() == 128 + SIGUSR2);
    CHECK(play.result.outcome == Outcome::signalled);
    REQUIRE(play.result.ranks.size() == 2);
    CHECK(play.result.ranks[0].signal == SIGUSR2);
}

TEST_CASE("other nodes are shown no secrets of the command, whose digest is of all words") {
    LaunchOptions options;
    options.command = {"train.py", "--api-key", "abc123", "--db=postgres://me:pw@db/x"};
    const JobCommand said = hello_of(options, false).command;
    CHECK(said.text == "train.py --api-key '(not shown)' '--db=postgres://me:(not shown)@db/x'");
    options.command[2] = "abc124";
    CHECK(hello_of(options, false).command.digest != said.digest);
}

TEST_CASE("an agent draws one number, by which it is the host's own and known again") {
    const LaunchOptions options;
    const Hello said = hello_of(options, true);
    CHECK(said.nonce != 0);
    CHECK(is_same_agent(said, *server_options_of(options).coordinator.own_agent));
    Hello other = said;
    ++other.nonce;
    CHECK_FALSE(is_same_agent(said, other));
}

TEST_CASE("the coordinator is told how much of the join timeout names have taken") {
    LaunchOptions options;
    options.join_spent = std::chrono::seconds(2);
    CHECK(server_options_of(options).coordinator.join_spent == options.join_spent);
}

}  // namespace ddprun
