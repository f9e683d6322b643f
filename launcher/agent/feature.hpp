// A Feature is something that a launcher can do besides running workers in rounds: a time limit, a watchdog,
// an event log, an answer to health probes. A feature says at which moments it wants to be called, in one
// file of launcher/features/, and the agent knows no feature by name.
//
//   moment          when
//   unfit           before there is an agent, the feature may say why this node is to take no part
//   began           the agent is there, and nothing has been started; what it throws ends the launcher
//   heard           the coordinator says something, of which the agent has done nothing yet
//   learnt          something happened that the coordinator does not say
//   answer          another node asks this one: the feature says what it knows of that kind of Question
//   round_begins    before the workers of a round start: the feature adds what they get; what it throws fails
//                   the round
//   workers_run     all workers of this node were started; what it throws ends the launcher
//   worker_failed   a worker of this node failed: the feature says why if it knows
//   before_stop     workers of this node are about to be told to end, and at half of the grace those that are
//                   left once more: the feature may hold the signal for a while, to look at them as they are
//   line            a worker of this node has printed a line, if the feature wants_lines(); on another thread
//   round_over      no worker of this node is left, nor anything that they have started
//   told_gone       the coordinator is about to be told that, after a stop: the feature adds what it has seen
//   ended           the job is over here
//
// The agent calls everything but line() on its own thread, from inside run_agent(), in the order in which it
// happens. A feature outlives the agent, and throws from began(), round_begins() and workers_run() only.
#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/agent_machine.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/path_template.hpp"
#include "launcher/process/process_runner.hpp"
#include "launcher/report/result_file.hpp"
#include "launcher/stop/stop_consent.hpp"
#include "launcher/verdict/progress_clock.hpp"
#include "launcher/verdict/verdict.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/agent_status.hpp"
#include "rendezvous/secure/secret.hpp"
#include "rendezvous/server/refused_caller.hpp"

namespace ddprun {
inline namespace job {
class RendezvousLink;
}  // namespace job
}  // namespace ddprun

namespace ddprun {
inline namespace launch {

class RoundWorkers;

// PlaceKnown: the coordinator and the store are at this place; `hosted`: this agent hosts them, and listens
// there from now on.
struct PlaceKnown {
    Endpoint place;
    bool hosted = false;
};

// StateChanged: the AgentMachine has taken an event.
struct StateChanged {
    AgentState before = AgentState::joining;
    AgentEvent event = AgentEvent::round_ready;
    AgentState after = AgentState::joining;
};
BOOST_DESCRIBE_STRUCT(StateChanged, (), (before, event, after))

// SignalSent: a feature asks that this signal be handled as if it had been sent to the launcher; only of
// those that the launcher handles.
struct SignalSent {
    int signal = 0;
};

// SignalReceived: a process, or ddpctl, has sent a signal that means something to the job.
struct SignalReceived {
    int signal = 0;
};
BOOST_DESCRIBE_STRUCT(SignalReceived, (), (signal))

// TimeWarning: the job's end is near, or its workers are told something for another reason of time; `text` is
// what the user reads.
struct TimeWarning {
    int signal = 0;
    std::string text;
};
BOOST_DESCRIBE_STRUCT(TimeWarning, (), (signal, text))

// CoordinatorLost: the coordinator, or the way to it, was lost, and the nodes that are left look for another
// one.
struct CoordinatorLost {
    std::string cause;
};
BOOST_DESCRIBE_STRUCT(CoordinatorLost, (), (cause))

// TookOver: this agent leads the job now.
struct TookOver {};
BOOST_DESCRIBE_STRUCT(TookOver, (), ())

// LedAgain: another coordinator leads this node, perhaps this agent's own.
struct LedAgain {};
BOOST_DESCRIBE_STRUCT(LedAgain, (), ())

// StopTyped: the user wants the launcher to stand still (Ctrl-Z). WindowChanged: its terminal has another
// size (SIGWINCH).
struct StopTyped {};
struct WindowChanged {};

// Suspended: the workers are about to stand still (Ctrl-Z). Resumed: they are about to go on again.
struct Suspended {};
struct Resumed {};

// WorkerEnded: one worker of this node has ended in this round; `use` holds zeros where the system did not
// say.
struct WorkerEnded {
    int round = 0;
    RankEnd end;
    ResourceUse use;
};

// TimerExpired: a timer that a process of this node has set for itself is over.
struct TimerExpired {
    int round = 0;
    int rank = -1;  // of the worker that the process is, or is below; -1: of none
    int local_rank = -1;
    std::int64_t pid = 0;
    std::string scope;
    std::int64_t length_ms = 0;
    int signal = 0;  // the signal that the process was sent; 0: none
};
BOOST_DESCRIBE_STRUCT(TimerExpired, (), (round, rank, local_rank, pid, scope, length_ms, signal))

// HangFound: the job does not get on, and these ranks hold it. HangOver: it gets on again, by this sign.
struct HangFound {
    HangVerdict verdict;
    std::int64_t since_unix_ms = 0;  // of the last sign of progress, or of the round's begin
    std::int64_t quiet_ms = 0;       // so far
};
struct HangOver {
    std::int64_t quiet_ms = 0;  // in all
    ProgressSign sign = ProgressSign::output;
};
BOOST_DESCRIBE_STRUCT(HangOver, (), (quiet_ms, sign))

// EventTold: whole lines of --events, also without such a file; an empty one asks the event log for them.
struct EventTold {
    std::string lines;
};

// RanksSeen: what this node's ranks did when they were looked at before they were told to end.
struct RanksSeen {
    int round = 0;
    bool is_half_over = false;  // at half of the grace
    std::vector<RanksDoing> ranks;
};
BOOST_DESCRIBE_STRUCT(RanksSeen, (), (round, is_half_over, ranks))

using AgentNews =
    std::variant<PlaceKnown, StateChanged, SignalSent, SignalReceived, TimeWarning, CoordinatorLost, TookOver,
                 LedAgain, StopTyped, WindowChanged, Suspended, Resumed, WorkerEnded, TimerExpired, RanksSeen,
                 RefusedCaller, HangFound, HangOver, EventTold>;

// LogLevel: how loud a line is, as LauncherLog has it.
enum class LogLevel { debug, info, warn };

// AgentControls are what a feature may ask of its agent, or have it do; called from handlers of the executor
// and from the feature's moments.
class AgentControls {
  public:
    virtual boost::asio::any_io_executor executor() = 0;
    virtual const LaunchOptions& options() const = 0;
    virtual ProcessRunner& runner() = 0;
    virtual OutputPump& pump() = 0;
    virtual RendezvousLink& link() = 0;
    virtual RoundWorkers* round() = 0;  // the last one; nullptr before the first
    virtual AgentStatus status() const = 0;
    virtual void say(LogLevel level, const std::string& line) = 0;
    // Ends the job as this signal to the launcher does; `impatient`: by a user who does not want to wait any
    // more.
    virtual void end_by(int signal, bool impatient) = 0;
    // Ends the job as by SIGTERM, since its time is over, for this reason.
    virtual void time_is_over(const std::string& why) = 0;
    // Counts a worker as failed, though it has not ended; `why` is a sentence.
    virtual void worker_hangs(int local_rank, const std::string& why) = 0;
    // Sends the message to the coordinator.
    virtual void send(const ControlMessage& message) = 0;
    // Tells all features the news.
    virtual void tell(const AgentNews& news) = 0;

  protected:
    ~AgentControls() = default;
};

// LauncherStreams: the launcher's own streams, for the rank of --tty.
struct LauncherStreams {
    std::optional<GivenDescriptor> terminal;  // in place of the launcher's, if its input is one
    bool output_is_terminal = false;
    bool error_is_terminal = false;
};

// RoundAdditions: what features give to the workers of a round.
struct RoundAdditions {
    Environment unless_set = {};  // a variable that the user has set stays as it is
    Environment over = {};        // a variable of the user's is replaced
    LauncherStreams launcher = {};
};

// LateVariables: variables that a feature gives to workers; their values are known only when the job runs.
struct LateVariables {
    std::string when;      // what --explain says in place of the values
    RoundAdditions added;  // with any values
};

// EarlyFacts: what a feature may go by that opens something as soon as the command line is understood. The
// options of the launch are not final by then.
struct EarlyFacts {
    const Environment& environment;           // the launcher's own
    const PathFacts& paths;                   // for the signs in paths
    bool starts_nothing = false;              // --dry-run: no file is made
    std::function<SitePolicy()> site_policy;  // reads it; throws where the user asks for less
};

// FeatureInputs: what the features of a launcher are made from, once its options and this machine are known.
// What a single feature needs stands in its own struct, in LaunchOptions::features.
struct FeatureInputs {
    const LaunchOptions& options;
    LauncherLog& log;
    std::string rdzv_backend;                            // in torchrun's words
    std::chrono::steady_clock::time_point start;         // of this launcher
    std::chrono::steady_clock::time_point options_read;  // when the command line was understood
    std::vector<std::string> command = {};               // the launcher's own words
};

// SayAnswer takes what a feature answers to a Question: `text`, of any length, or the `trouble`. Called once,
// on the agent's thread, at once or later; not where the agent ends before.
using SayAnswer = std::function<void(Answer)>;

class Feature {
  public:
    virtual ~Feature() = default;

    // Returns true if the result given to ended() is to have the ends of the ranks of all nodes, which the
    // coordinator then sends.
    virtual bool wants_all_ranks() const { return false; }
    // Returns true if the feature answers each JudgeFailure by a Judgement, so that the coordinator asks;
    // called once, after began().
    virtual bool answers_failures() const { return false; }
    // Returns true if line() is to be called; asked once, before began().
    virtual bool wants_lines() const { return false; }

    virtual std::optional<std::string> unfit() { return std::nullopt; }
    virtual void began(AgentControls&) {}
    virtual void heard(const ControlMessage&) {}
    virtual void learnt(const AgentNews&) {}
    // Returns true if the feature knows this kind of Question.
    virtual bool answer(const Question& question, const SayAnswer& say) {
        static_cast<void>(question), static_cast<void>(say);
        return false;
    }
    virtual void round_begins(const RoundReady&, RoundAdditions&) {}
    virtual void workers_run(const RoundReady&) {}
    virtual void worker_failed(Failure&) {}
    // Returns true if the signal is to wait for `go_on`, which the feature calls on the agent's thread, from
    // here or later, at the latest after `cause.longest`; the signal does not wait longer than that. All
    // features look side by side. A round has at most one stop, of two steps: before the first signal, for
    // whatever cause, and at half of the grace before SIGTERM goes to all that is left. Nothing comes before
    // SIGKILL. A user in a hurry does not wait: a second Ctrl-C kills, and another SIGTERM sends what is
    // held; so does a loss (--lost-grace) after which others wait for these workers. The grace period begins
    // with the signal, --lost-grace with the loss. What ends while the first signal is held ends in the stop.
    virtual bool before_stop(const StopCause& cause, const GoOn& go_on) {
        static_cast<void>(cause), static_cast<void>(go_on);
        return false;
    }
    // Tells of a line of a worker, as LineWatcher says (output_pump.hpp): on the pump's thread, beside all
    // other moments, so that the feature guards what both touch. Nothing is told of the rank of --tty where
    // its output is a terminal of its own. Lines of a round may come after round_over(), none after ended().
    virtual void line(int rank, OutputStream stream, std::string_view text) noexcept {
        static_cast<void>(rank), static_cast<void>(stream), static_cast<void>(text);
    }
    virtual void round_over() {}
    virtual void told_gone(WorkersGone&) {}
    // Returns one line about trouble, if there was any, which is shown.
    virtual std::optional<std::string> ended(const JobResult&) { return std::nullopt; }

    // Tells that the agent ends, for whatever reason: the feature lets go of everything that it has of the
    // agent's executor.
    virtual void agent_leaves() {}

    // Adds what another process has to remove if this launcher is killed; asked when a round begins, and when
    // it is over.
    virtual void add_to(LauncherTraces&) const {}

    // Tells that the launcher ends before there was an agent, for this reason.
    virtual void launch_failed(int exit_code, std::string_view reason) {
        static_cast<void>(exit_code), static_cast<void>(reason);
    }
    // Tells that the launcher goes on in another process (--detach), and this one only waits for it.
    virtual void goes_on_elsewhere() {}
};

// Features are those of one launcher, which they outlive; called in the order in which they are here.
class Features {
  public:
    Features() = default;
    Features(std::vector<Feature*> all) : all_(std::move(all)) {}

    bool empty() const { return all_.empty(); }
    bool want_all_ranks() const {
        return std::any_of(all_.begin(), all_.end(),
                           [](const Feature* one) { return one->wants_all_ranks(); });
    }
    bool answer_failures() const {
        return std::any_of(all_.begin(), all_.end(),
                           [](const Feature* one) { return one->answers_failures(); });
    }
    // Returns what tells the features that want lines of them; empty: none does.
    LineWatcher line_watcher() const {
        std::vector<Feature*> watching;
        for (Feature* one : all_) {
            if (one->wants_lines()) watching.push_back(one);
        }
        if (watching.empty()) return {};
        return [watching](int rank, OutputStream stream, std::string_view text) {
            for (Feature* one : watching) one->line(rank, stream, text);
        };
    }
    // Returns the first reason for which the node is unfit; empty: the node is fit.
    std::string unfit() const {
        for (Feature* one : all_) {
            if (auto why = one->unfit()) return *why;
        }
        return {};
    }
    // Has the first feature answer that knows the kind of Question; returns false if none does.
    bool answer(const Question& question, const SayAnswer& say) const {
        return std::any_of(all_.begin(), all_.end(),
                           [&](Feature* one) { return one->answer(question, say); });
    }
    // Returns the features that hold the signal, by number; `go_on_of` makes what a feature goes on by.
    std::set<int> before_stop(const StopCause& cause, const std::function<GoOn(int)>& go_on_of) const {
        std::set<int> holding;
        int number = 0;
        for (Feature* one : all_) {
            if (one->before_stop(cause, go_on_of(number))) holding.insert(number);
            ++number;
        }
        return holding;
    }
    // Calls this moment of each: features.at(&Feature::learnt, news).
    template <typename Moment, typename... Arguments>
    void at(Moment moment, Arguments&&... arguments) const {
        for (Feature* one : all_) (one->*moment)(arguments...);
    }
    // Returns the lines that are to be shown.
    std::vector<std::string> ended(const JobResult& result) const {
        std::vector<std::string> lines;
        for (Feature* one : all_) {
            if (auto line = one->ended(result)) lines.push_back(std::move(*line));
        }
        return lines;
    }

  private:
    std::vector<Feature*> all_;
};

}  // namespace launch
}  // namespace ddprun
