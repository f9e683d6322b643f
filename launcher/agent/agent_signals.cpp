#include "launcher/agent/agent_signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace ddprun::inline launch {

AgentSignals::AgentSignals(const boost::asio::any_io_executor& executor, const LaunchOptions& options,
                           SignalObserver& observer)
    : options_(options), observer_(observer), signals_(executor) {
    ::sigemptyset(&watched_);
}

AgentSignals::~AgentSignals() { ::pthread_sigmask(SIG_BLOCK, &watched_, nullptr); }

void AgentSignals::add(int signal) {
    signals_.add(signal);
    ::sigaddset(&watched_, signal);
}

void AgentSignals::watch() {
    for (int signal : options_.terminating_signals) {
        if (signal != SIGHUP || !options_.hangup_ignored) add(signal);
    }
    for (const auto& [received, sent] : options_.forwarded_signals) add(received);
    if (::isatty(STDOUT_FILENO) != 0 || options_.tty_rank) add(SIGWINCH);
    // Ctrl-Z typed for the rank of --tty reaches that rank, and a launcher that stops would leave it alone
    // with the keyboard.
    if (!options_.tty_rank && !options_.terminal_stop_ignored) add(SIGTSTP);
    wait();
}

void AgentSignals::wait() {
    signals_.async_wait([this](boost::system::error_code cancelled, int signal) {
        if (cancelled) return;
        wait();
        take(signal);
    });
}

void AgentSignals::take(int signal) {
    if (signal == SIGWINCH) observer_.window_changed();
    if (signal != SIGWINCH || options_.forwarded_signals.contains(signal)) observer_.signal_received(signal);
    if (auto forward = options_.forwarded_signals.find(signal); forward != options_.forwarded_signals.end())
        return observer_.signal_goes_on(forward->second, options_.requeue_signals.contains(signal));
    if (signal == SIGWINCH) return;
    const auto& ending = options_.terminating_signals;
    const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
    if (signal == SIGTSTP && !ends) return observer_.suspend([this] { stop_itself(); });
    signal == SIGINT ? interrupt() : observer_.signal_ends(signal, false);
}

void AgentSignals::interrupt() {
    const Interrupt interrupt = interrupts_.take(std::chrono::steady_clock::now());
    if (interrupt == Interrupt::repeated) return;
    observer_.signal_ends(SIGINT, interrupt == Interrupt::impatient);
    if (interrupt == Interrupt::first) interrupts_.first_answered(std::chrono::steady_clock::now());
}

// The process stops as the shell expects it: by SIGTSTP, and not at all without a shell that could continue it.
void AgentSignals::stop_itself() const {
    struct sigaction by_default = {};
    struct sigaction ours = {};
    by_default.sa_handler = SIG_DFL;
    ::sigaction(SIGTSTP, &by_default, &ours);
    ::raise(SIGTSTP);
    ::sigaction(SIGTSTP, &ours, nullptr);
    observer_.resume();
}

}  // namespace ddprun::inline launch
