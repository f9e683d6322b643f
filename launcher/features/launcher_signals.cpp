#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <optional>

#include "launcher/features/features.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

class LauncherSignals final : public Feature {
  public:
    void began(AgentControls& agent) override {
        agent_ = &agent;
        signals_.emplace(agent.executor());
        const LaunchOptions& options = agent.options();
        for (int signal : options.terminating_signals) {
            if (signal != SIGHUP || !options.hangup_ignored) watch(signal);
        }
        for (const auto& [received, sent] : options.forwarded_signals) watch(received);
        for (const int signal : unexpected_signals()) watch(signal);
        if (::isatty(STDOUT_FILENO) != 0 || options.tty_rank) watch(SIGWINCH);
        // Ctrl-Z typed for the rank of --tty reaches that rank, and a launcher that stops would leave it
        // alone with the keyboard.
        if (!options.tty_rank && !options.terminal_stop_ignored) watch(SIGTSTP);
        await();
    }
    void heard(const ControlMessage& message) override {
        if (const auto* round = std::get_if<RoundReady>(&message)) round_ = round->round;
    }
    void learnt(const AgentNews& news) override {
        if (const auto* sent = std::get_if<SignalSent>(&news)) take(sent->signal);
    }
    void agent_leaves() override {
        block_signals();
        signals_.reset();
    }

  private:
    void watch(int signal) { signals_->add(signal); }
    void await() {
        signals_->async_wait([this](boost::system::error_code cancelled, int signal) {
            if (cancelled || !signals_) return;  // It may have come just before the agent left.
            await();
            take(signal);
        });
    }

    void take(int signal) {
        if (signal == SIGWINCH) agent_->tell(WindowChanged{});
        const LaunchOptions& options = agent_->options();
        const auto forward = options.forwarded_signals.find(signal);
        const bool goes_on = forward != options.forwarded_signals.end();
        if (signal == SIGWINCH && !goes_on) return;
        agent_->tell(SignalReceived{signal});
        // The coordinator sends it back to every agent, this one included.
        if (goes_on)
            return agent_->send(
                NoticeSignal{round_, forward->second, options.requeue_signals.contains(signal)});
        const auto& ending = options.terminating_signals;
        const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
        if (signal == SIGTSTP && !ends) return agent_->tell(StopTyped{});
        if (!ends) {
            agent_->say(LogLevel::warn, unexpected_text(signal));
            return agent_->time_is_over(unexpected_text(signal));
        }
        if (signal != SIGINT) return agent_->end_by(signal, false);
        const Interrupt interrupt = interrupts_.take(std::chrono::steady_clock::now());
        if (interrupt == Interrupt::repeated) return;
        agent_->end_by(SIGINT, interrupt == Interrupt::impatient);
        if (interrupt == Interrupt::first) interrupts_.first_answered(std::chrono::steady_clock::now());
    }

    AgentControls* agent_ = nullptr;
    int round_ = 0;  // the last one that the coordinator has begun
    std::optional<boost::asio::signal_set> signals_;
    Interrupts interrupts_;  // of those that end the job
};

}  // namespace

std::unique_ptr<Feature> make_launcher_signals(const FeatureInputs&) {
    return std::make_unique<LauncherSignals>();
}

}  // namespace launch
}  // namespace ddprun
