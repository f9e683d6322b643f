// A whole agent, with its own rendezvous, and workers that live only on paper.
#include "launcher/agent/agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>

#include "launcher/agent/agent_link.hpp"
#include "launcher/features/features.hpp"
#include "launcher/process/local_runner.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "tests/launcher/agent/holding_feature.hpp"
#include "tests/launcher/round/worker_group_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// The test plays a worker's end; the rest of the group ends by whatever signal it is sent.
class ObedientRunner final : public ProcessRunner {
  public:
    ObedientRunner(boost::asio::any_io_executor executor, std::vector<int>& signals)
        : executor_(std::move(executor)), signals_(signals) {}

    std::variant<Started, StartFailure> start(const WorkerSpec&, WorkerObserver& observer) override {
        workers_.push_back(&observer);
        return Started{pid_of(workers_.size() - 1)};
    }
    void signal_worker(pid_t worker, int signal, SignalScope) override {
        signals_.push_back(signal);
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
    std::vector<int>& signals_;
    std::vector<WorkerObserver*> workers_;  // those that have not ended
};

// Writes down what it is told.
class Notes : public Feature {
  public:
    bool wants_all_ranks() const override { return wants_all; }
    bool answers_failures() const override { return answers; }
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
    bool answers = false;
};

// Answers that the job stops.
class Answering : public Feature {
  public:
    bool answers_failures() const override { return true; }
    void began(AgentControls& agent) override { controls_ = &agent; }
    void heard(const ControlMessage& message) override {
        const auto* asked = std::get_if<JudgeFailure>(&message);
        if (asked == nullptr) return;
        failures.push_back(asked->failure);
        controls_->send(Judgement{.round = asked->round, .answer = Judgement::Answer::stop});
    }

    std::vector<Failure> failures;

  private:
    AgentControls* controls_ = nullptr;
};

// Runs an agent of one node with two workers; `play` is called in each round, once they run.
class Play : public Feature {
  public:
    using Act = std::function<void(Play&)>;

    explicit Play(Act play) : play_(std::move(play)) {}

    int run() {
        options.output.files = false;
        if (options.workers.empty()) options.workers = {{{"program"}, {}}, {{"program"}, {}}};
        options.terminating_signals = {SIGUSR2};
        LauncherLog log(Verbosity::quiet);
        const SignalsBlocked signals_as_before;
        FeatureInputs inputs{
            .options = options, .log = log, .rdzv_backend = {}, .start = {}, .options_read = {}};
        const auto signals = make_launcher_signals(inputs);
        return run_agent(std::move(options), log, features(*signals),
                         [this](const auto& executor, const auto&) -> std::unique_ptr<ProcessRunner> {
                             if (are_real) return std::make_unique<LocalRunner>(executor);
                             auto made = std::make_unique<ObedientRunner>(executor, sent);
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
    bool are_real = false;  // the workers, likewise
    ObedientRunner* runner = nullptr;
    AgentControls* controls = nullptr;
    int round = 0;
    std::vector<int> sent;  // signals to the workers, one after the other
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
    second.wants_all = second.answers = true;
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
    CHECK_FALSE(Features({&first}).answer_failures());
    CHECK(Features({&first, &second}).answer_failures());
    CHECK(Features({&first, &second}).ended({}) == Lines{"trouble", "trouble"});
}

TEST_CASE("a feature that answers failures is asked about each") {
    Play play([](Play& self) {
        self.runner->end(2 * static_cast<std::size_t>(self.round), Exited{7});  // of this round
    });
    play.options.restarts.max_restarts = 1;
    Answering answering;
    play.others = {&answering};
    CHECK(play.run() == 7);
    REQUIRE(answering.failures.size() == 1);
    CHECK(answering.failures.front().exit_code == 7);
    CHECK(play.round == 0);
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

TEST_CASE("a feature that wants lines is told what workers print, another is not") {
    struct Reader final : Feature {
        bool wants_lines() const override { return wants; }
        void line(int rank, OutputStream stream, std::string_view text) noexcept override {
            told = std::to_string(rank) + " " + std::string(stream_name(stream)) + " " + std::string(text);
        }
        bool wants = true;
        std::string told;
    };
    Reader reader, other;
    other.wants = false;
    Play play([](Play&) {});
    play.are_real = true;
    play.options.output = std::get<OutputPlan>(parse_output_options({.local_ranks_filter = "1"}));
    play.options.workers = {{{"/bin/echo", "words"}, {}}};
    play.others = {&other, &reader};
    CHECK(play.run() == 0);
    CHECK(reader.told == "0 stdout words");
    CHECK(other.told.empty());
    CHECK_FALSE(Features({&other}).line_watcher());
}

TEST_CASE("a feature learns why the workers stop, and holds the stop until it goes on") {
    HoldingFeature holder, second;
    SECTION("of a failure") {
        Play play([](Play& self) { self.runner->end(1, Exited{7}); });
        holder.when_asked = [&] { boost::asio::post(play.controls->executor(), holder.go_ons.back()); };
        second.when_asked = [&] {
            CHECK(play.sent == std::vector<int>{SIGKILL});  // what the failed worker left
            second.go_on();
        };
        play.others = {&holder, &second};
        CHECK(play.run() == 7);
        REQUIRE(holder.causes.size() == 1);
        CHECK(holder.causes[0].failure->rank == 1);
        CHECK(holder.causes[0].received == 0);
        CHECK(play.result.ranks.at(1).manner == RankEnd::Manner::stopped);
    }
    SECTION("of a signal, and never goes on") {
        Play play([](Play& self) { self.controls->tell(SignalSent{SIGUSR2}); });
        play.options.grace_period = std::chrono::milliseconds(20);
        play.others = {&holder};
        CHECK(play.run() == 128 + SIGUSR2);
        REQUIRE_FALSE(holder.causes.empty());
        CHECK(holder.causes[0].received == SIGUSR2);
        CHECK_FALSE(holder.causes[0].failure);
        CHECK(play.result.ranks.at(0).signal == SIGUSR2);
    }
    SECTION("of the time, and all workers end meanwhile") {
        Play play([](Play& self) { self.controls->time_is_over("time is over"); });
        holder.when_asked = [&] {
            play.runner->end(0, Exited{0});
            play.runner->end(1, Exited{0});
        };
        play.others = {&holder};
        CHECK(play.run() == kExitPreempted);
        CHECK(holder.causes.at(0).reason == "time is over");
        CHECK(std::count(play.sent.begin(), play.sent.end(), SIGCONT) == 0);
    }
    // The agent is gone.
    for (const GoOn& go_on : holder.go_ons) go_on();
}

TEST_CASE("a user who does not want to wait sends the signal that a feature holds") {
    const bool impatient = GENERATE(false, true);
    HoldingFeature holder;
    Play play([](Play& self) { self.controls->time_is_over("time is over"); });
    holder.when_asked = [&] {
        boost::asio::post(play.controls->executor(), [&, impatient] {
            CHECK(play.sent.empty());
            play.controls->end_by(SIGINT, impatient);
            REQUIRE_FALSE(play.sent.empty());
            CHECK(play.sent[0] == (impatient ? SIGKILL : SIGTERM));
        });
    };
    play.others = {&holder};
    CHECK(play.run() != 0);
    CHECK(holder.causes.size() == 1);
}

TEST_CASE("what goes on of an earlier round does not stop the next") {
    HoldingFeature holder;
    Play play([&](Play& self) {
        if (self.round == 0) return self.runner->end(0, Exited{7});
        const std::size_t before = self.sent.size();
        holder.go_ons.at(0)();
        CHECK(self.sent.size() == before);
        self.runner->end(2, Exited{0});
        self.runner->end(3, Exited{0});
    });
    holder.when_asked = [&] { play.runner->end(1, Exited{1}); };
    play.options.restarts.max_restarts = 1;
    play.others = {&holder};
    CHECK(play.run() == 0);
    CHECK(play.result.restart_count == 1);
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
