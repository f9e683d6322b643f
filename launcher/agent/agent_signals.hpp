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

struct AgentSignalEvents {
    // Any of those below but on_window, directly before that.
    std::function<void(int signal)> on_received;
    // It ends the job. `impatient`: a SIGINT of a user who does not want to wait any more.
    std::function<void(int signal, bool impatient)> on_ending;
    // Every worker of the job is to be sent `signal`; afterwards, with `requeue`, all zeros mean
    // kExitPreempted.
    std::function<void(int signal, bool requeue)> on_forward;
    // The terminal has another size.
    std::function<void()> on_window;
    // This process is about to stop (Ctrl-Z), as soon as `stop` is called; and goes on again (fg).
    std::function<void(std::function<void()> stop)> on_stop;
    std::function<void()> on_continue;
};

class AgentSignals {
  public:
    // `options` outlive it.
    AgentSignals(const boost::asio::any_io_executor& executor, const LaunchOptions& options,
                 AgentSignalEvents events);
    // The job is over, and its exit code shall not give way to a signal that comes now: the thread keeps those that were
    // watched blocked, as the process is about to end.
    ~AgentSignals();

    AgentSignals(const AgentSignals&) = delete;
    AgentSignals& operator=(const AgentSignals&) = delete;

    // From now on signals have these meanings.
    void watch();

    // As if the process had been sent it; only for signals that it handles.
    void take(int signal);

  private:
    void add(int signal);
    void wait();
    void interrupt();
    void stop_itself() const;

    const LaunchOptions& options_;
    AgentSignalEvents events_;
    boost::asio::signal_set signals_;
    sigset_t watched_;
    Interrupts interrupts_;  // of those that end the job
};

}  // namespace ddprun::inline launch
