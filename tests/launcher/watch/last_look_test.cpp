#include "launcher/watch/last_look.hpp"

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "launcher/output/output_pump.hpp"
#include "tests/launcher/agent/fake_agent.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

StopCause failed(Failure::Kind kind = Failure::Kind::worker_failed) {
    Failure failure{.kind = kind};
    failure.rank = 3;
    failure.pid = 77;
    failure.exit_code = 1;
    return {.signal = SIGTERM, .failure = failure};
}

StopCause timed_out() {
    StopCause cause = failed();
    cause.failure->last_lines = {"TimeoutError: timed out"};
    return cause;
}

Observation asleep(int rank) {
    Observation one;
    one.rank = rank;
    one.pid = 100 + rank;
    one.wait = Wait{.kind = WaitKind::sleep};
    one.frames = {{"next_batch", "/proj/data.py", 88, false}};
    one.source = StackSource::python;
    return one;
}

// Looked: a feature whose looker does what a test says, with an agent of four ranks of which the last one has
// failed.
class Looked {
  public:
    explicit Looked(RankLooker looker)
        : feature(make_last_look_by(std::move(looker))), agent(context.get_executor()) {
        pump.emplace(context.get_executor(), plan, OutputPumpSettings{}, [](const std::string&) {});
        agent.shows = &*pump;
        for (int rank = 0; rank < 4; ++rank)
            agent.now.workers.push_back({.rank = rank, .local_rank = rank, .pid = 100 + rank});
        agent.now.workers.back().exit_code = 1;
        feature->began(agent);
    }
    ~Looked() { feature->agent_leaves(); }

    // Returns whether the signal is held.
    bool stop(const StopCause& cause) {
        goes_on = 0;
        return feature->before_stop(cause, [this] { ++goes_on; });
    }
    void await_signal() {
        run_until(context, [this] { return goes_on > 0; });
    }
    WorkersGone gone() {
        feature->round_over();
        WorkersGone gone{.round = 2};
        feature->told_gone(gone);
        return gone;
    }

    boost::asio::io_context context{1};
    std::unique_ptr<Feature> feature;
    FakeAgent agent;
    OutputPlan plan;
    std::optional<OutputPump> pump;
    int goes_on = 0;
};

// Gate: what a looker waits at until the test opens it, or ends.
class Gate {
  public:
    void open() {
        const std::lock_guard lock(mutex_);
        is_open_ = true;
        opened_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        opened_.wait(lock, [this] { return is_open_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable opened_;
    bool is_open_ = false;
};

void look_nowhere(const LookScope&, const std::atomic<bool>&, const TellSeen&) {}

}  // namespace

TEST_CASE("last look: how long it may take, by what has ended the round") {
    using Kind = Failure::Kind;
    CHECK(look_time(failed()) == 20ms);
    CHECK(look_time(timed_out()) == 500ms);
    CHECK(look_time(failed(Kind::node_lost)) == 500ms);
    CHECK(look_time(failed(Kind::overdue)) == 500ms);
    CHECK(look_time({.signal = SIGTERM, .is_half_over = true}) == 500ms);
    StopCause interrupted = failed();
    interrupted.received = SIGINT;
    StopCause unstarted = failed();
    unstarted.failure->pid = 0;
    for (const StopCause& cause : {StopCause{.signal = SIGTERM}, interrupted, unstarted,
                                   failed(Kind::resized), failed(Kind::signalled)})
        CHECK_FALSE(look_time(cause));
    interrupted.is_half_over = true;
    CHECK(look_time(interrupted) == 500ms);
}

TEST_CASE("last look: the signal waits for the answer, which is told once the workers are gone") {
    Looked looked([](const LookScope& scope, const std::atomic<bool>&, const TellSeen& tell) {
        if (scope.node.workers.size() == 4) tell(asleep(2));
    });
    REQUIRE(looked.stop(timed_out()));
    looked.await_signal();
    CHECK(looked.goes_on == 1);
    const WorkersGone gone = looked.gone();
    CHECK(doings_text(gone.others) == "rank 2 slept in next_batch (data.py:88)");
    CHECK(gone.left.empty());
    CHECK(looked.agent.count<RanksSeen>() == 1);
    CHECK(looked.agent.said.empty());
    // Another round begins with nothing.
    RoundAdditions none;
    looked.feature->round_begins({}, none);
    CHECK(looked.gone().others.empty());
}

TEST_CASE("last look: what has not answered in time is left out, and a thread that hangs holds nothing") {
    const auto gate = std::make_shared<Gate>();
    const auto over = std::make_shared<Gate>();
    {
        Looked looked(
            [gate, over](const LookScope&, const std::atomic<bool>& is_cancelled, const TellSeen& tell) {
                tell(asleep(0));
                gate->wait();
                tell(asleep(1));
                if (is_cancelled) over->open();
            });
        REQUIRE(looked.stop(timed_out()));
        looked.await_signal();
        CHECK(doings_text(looked.gone().others) == "rank 0 slept in next_batch (data.py:88)");
    }
    // The agent is gone, and the thread goes on.
    gate->open();
    over->wait();
}

TEST_CASE("last look: what was read by then counts where the workers end before the signal") {
    const auto gate = std::make_shared<Gate>(), told = std::make_shared<Gate>();
    Looked looked([gate, told](const LookScope&, const std::atomic<bool>&, const TellSeen& tell) {
        tell(asleep(0));
        told->open();
        gate->wait();
    });
    REQUIRE(looked.stop(timed_out()));
    told->wait();
    CHECK(doings_text(looked.gone().others) == "rank 0 slept in next_batch (data.py:88)");
    gate->open();
}

TEST_CASE("last look: at another failure the signal passes as well, though no words were read") {
    const auto gate = std::make_shared<Gate>();
    Looked looked([gate](const LookScope&, const std::atomic<bool>&, const TellSeen&) { gate->wait(); });
    REQUIRE(looked.stop(failed()));
    looked.await_signal();
    CHECK(looked.gone().others.empty());
    gate->open();
}

TEST_CASE("last look: nothing is looked at where nothing runs, or the user ends the job") {
    Looked looked(look_nowhere);
    StopCause interrupted = failed();
    interrupted.received = SIGINT;
    CHECK_FALSE(looked.stop(interrupted));
    CHECK_FALSE(looked.stop({.signal = SIGTERM}));
    for (WorkerStatus& worker : looked.agent.now.workers) worker.exit_code = 0;
    CHECK_FALSE(looked.stop(failed()));
    CHECK(looked.gone() == WorkersGone{.round = 2});
    CHECK(looked.agent.told.empty());
}

TEST_CASE("last look: those that are left at half of the grace are told at once, and later") {
    int looks = 0;
    Looked looked([&looks](const LookScope&, const std::atomic<bool>&, const TellSeen& tell) {
        tell(asleep(looks++));
    });
    REQUIRE(looked.stop(timed_out()));
    looked.await_signal();
    StopCause half = failed();
    half.is_half_over = true;
    REQUIRE(looked.stop(half));
    looked.await_signal();
    CHECK(looked.agent.said ==
          std::vector<std::string>{"left at half of the grace: rank 1 slept in next_batch (data.py:88)"});
    const WorkersGone gone = looked.gone();
    CHECK(doings_text(gone.others) == "rank 0 slept in next_batch (data.py:88)");
    CHECK(doings_text(gone.left) == "rank 1 slept in next_batch (data.py:88)");
    CHECK(looked.agent.count<RanksSeen>() == 2);
}

TEST_CASE("last look: a rank that fails by itself meanwhile does not count as one that stood somewhere") {
    Looked looked([](const LookScope&, const std::atomic<bool>&, const TellSeen& tell) {
        tell(asleep(0));
        tell(asleep(1));
    });
    REQUIRE(looked.stop(timed_out()));
    looked.await_signal();
    WorkerEnded ended{
        .round = 2, .end = {.rank = 0, .exit_code = 1, .manner = RankEnd::Manner::failed}, .use = {}};
    looked.feature->learnt(ended);
    ended.end.rank = 1;
    ended.end.manner = RankEnd::Manner::stopped;
    looked.feature->learnt(ended);
    CHECK(doings_text(looked.gone().others) == "rank 1 slept in next_batch (data.py:88)");
}

}  // namespace ddprun
