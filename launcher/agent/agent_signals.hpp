// AgentSignals: the signals that an agent's process is sent, told as what they mean to its job.
//
// Owned by the agent and used on its thread; the events come from the executor, or from inside take().
#pragma once

#include <signal.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>

#include "launcher/agent/launch_options.hpp"
#include "launcher/interrupts.hpp"

namespace ddprun::inline launch {

class SignalObserver {
  public:
    // Any of those below but window_changed(), directly before that.
    virtual void signal_received(int signal) = 0;
    // It ends the job. `impatient`: a SIGINT of a user who does not want to wait any more.
    virtual void signal_ends(int signal, bool impatient) = 0;
    // Every worker of the job is to be sent `signal`; afterwards, with `requeue`, all zeros mean
    // kExitPreempted.
    virtual void signal_goes_on(int signal, bool requeue) = 0;
    // The terminal has another size.
    virtual void window_changed() = 0;
    // This process is about to stop (Ctrl-Z), as soon as `stop` is called; and goes on again (fg).
    virtual void suspend(std::function<void()> stop) = 0;
    virtual void resume() = 0;

  protected:
    ~SignalObserver() = default;
};

class AgentSignals {
  public:
    // `options` and `observer` outlive it.
    AgentSignals(const boost::asio::any_io_executor& executor, const LaunchOptions& options,
                 SignalObserver& observer);
    // The job is over, and its exit code shall not give way to a signal that comes now: the thread keeps those that were
    // watched blocked, as the process is about to end.
    ~AgentSignals();

    AgentSignals(const AgentSignals&) = delete;
    AgentSignals& operator=(const AgentSignals&) = delete;

    // From now on signals have these meanings.
    void watch();

    // Acts as if the process had been sent it; only for signals that it handles.
    void take(int signal);

  private:
    void add(int signal);
    void wait();
    void interrupt();
    void stop_itself() const;

    const LaunchOptions& options_;
    SignalObserver& observer_;
    boost::asio::signal_set signals_;
    sigset_t watched_;
    Interrupts interrupts_;  // of those that end the job
};

}  // namespace ddprun::inline launch
