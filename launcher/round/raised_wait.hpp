// RaisedWait holds the first signal of a stop, after a worker has failed, for workers that have raised
// something and have not ended yet.
//
// A worker that raises closes its connections before it ends, by which others lose theirs, and may end
// sooner: the report is to name the first. RoundWorkers owns the wait of a round, and uses it on the agent's
// thread; `pump` and `ledger` outlive it. StopGate bounds the wait as it bounds what features hold.
//
//   state            meaning
//   idle             no signal is held
//   reading          what workers have printed until now is being read
//   awaiting_words   a worker has lost its connection, and none has said what it raised
//   awaiting_ends    a worker has said what it raised, and runs
//   signalled        the workers were sent a signal: what they raise now is their answer to that
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>

#include "launcher/output/output_pump.hpp"
#include "launcher/round/round_ledger.hpp"
#include "launcher/stop/stop_consent.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

enum class RaisedState { idle, reading, awaiting_words, awaiting_ends, signalled };
BOOST_DESCRIBE_ENUM(RaisedState, idle, reading, awaiting_words, awaiting_ends, signalled)

enum class RaisedEvent {
    held,         // the gate asks, since a worker has failed
    nobody_left,  // none that raised something runs, and the failure is explained
    only_victim,  // the failed worker has lost its connection; why is not known
    raiser_runs,  // a worker runs that raised something before the failed one did
    time_over,    // the time of this state has passed
    sent,         // the workers were sent a signal
};
BOOST_DESCRIBE_ENUM(RaisedEvent, held, nobody_left, only_victim, raiser_runs, time_over, sent)

enum class RaisedAction { none, read, await_words, await_ends, go_on };

// RaisedMachine says what comes next. Pure: a table over states and events.
class RaisedMachine {
  public:
    RaisedState state() const { return state_; }
    RaisedAction handle(RaisedEvent event);

  private:
    RaisedState state_ = RaisedState::idle;
};

class RaisedWait {
  public:
    RaisedWait(const boost::asio::any_io_executor& executor, OutputPump& pump, RoundLedger& ledger)
        : pump_(pump), ledger_(ledger), timer_(executor) {}

    // Returns true if the wait holds the signal of this stop, which `go_on` lets pass, at the latest 400 ms
    // after what workers had printed was read. Returns false for a stop that no worker's failure has caused,
    // or the failure of one that a signal killed.
    bool hold(const StopCause& cause, const GoOn& go_on);

    // Lets the ledger know what workers have raised until now, where a worker's failure is the cause of the
    // stop and none was sent a signal yet.
    void note(const StopCause& cause);
    // Does that while a signal is held: a worker has ended, of which the ledger is about to hear.
    void note_before_end();
    // Goes on if those that have raised something have ended, as the ledger knows by now.
    void look_after_end();

    // Tells that the workers are sent a signal. Returns true the first time.
    bool send();
    // Ends the wait, since no worker is left.
    void cancel() { timer_.cancel(); }

  private:
    void handle(RaisedEvent event);
    void note();
    // Returns what the ledger knows now of those that raised something.
    RaisedEvent seen() const;
    void read();
    void await(std::chrono::milliseconds most);

    OutputPump& pump_;
    RoundLedger& ledger_;
    boost::asio::steady_timer timer_;
    RaisedMachine machine_;
    Failure failure_;  // that has caused the stop
    GoOn go_on_;       // while a signal is held
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
