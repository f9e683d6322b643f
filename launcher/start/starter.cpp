#include "launcher/start/starter.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/harmless_text.hpp"
#include "launcher/interrupts.hpp"
#include "launcher/launcher_mark.hpp"
#include "launcher/start/echo_filter.hpp"
#include "launcher/start/host_starts.hpp"
#include "launcher/start/start_console.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/job/exit_code.hpp"

namespace ddprun::inline launch {
namespace {

// How much longer than one grace period agents may take to end that were told to.
constexpr std::chrono::seconds kEndTime{30};
// Likewise, and than what they give each other, where node 0 has ended and nobody else was told anything.
constexpr std::chrono::seconds kStragglerTime{90};

// How long hosts that are still being connected to may take to fail, once one has.
constexpr std::chrono::seconds kOtherFailures{2};

class JobStarter {
  public:
    explicit JobStarter(const StarterOptions& options) : options_(options), ledger_(options.terms) {}

    int run() {
        for (const auto* signals : {&options_.ending_signals, &options_.forwarded_signals}) {
            for (const int signal : *signals) signals_.add(signal);
        }
        await_signal();
        starts_.begin(options_.plan, branches_of_starter(options_.plan.nodes, options_.plan.fan_out));
        context_.run();
        if (signal_ != 0 && !ledger_.has_begun() && !has_port_) return kExitSignalBase + signal_;
        return ledger_.exit_code();
    }

  private:
    void await_signal() {
        signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
            if (cancelled) return;
            await_signal();
            take_signal(signal);
        });
    }

    void take_signal(int signal) {
        const auto& ending = options_.ending_signals;
        const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
        // One agent alone passes it on to every worker of the job. One that ends the job all are sent: of an elastic one only
        // this agent's node would leave, and an impatient SIGINT ends the grace of the agent that gets it. Whether it is one is
        // known here: on the way to some agents the first may be held up.
        if (ends && signal == SIGINT &&
            interrupts_.take(std::chrono::steady_clock::now()) == Interrupt::repeated)
            return;
        if (has_port_ && ends) return starts_.send(PassSignal{signal, true});
        if (has_port_) return starts_.send_to(0, PassSignal{signal, false});
        if (!ends) return;  // No worker is there that could get it.
        signal_ = signal;
        end_all();
    }

    void receive(const AgentOutput& output) {
        // That an agent was ended which nobody needs any more is no news.
        if (output.is_error && is_ending_ && !ledger_.has_begun()) return;
        console_.write(output.is_error, output.is_error
                                            ? echoes_.fresh(output.rank, output.text, speaker(output.rank))
                                            : output.text);
        hold_if_due();
    }
    // While nodes meet, what one of them has to say is its own trouble; then a report is everybody's, and names nodes itself.
    std::string speaker(int rank) const {
        const auto& nodes = options_.plan.nodes;
        const bool is_other = rank > 0 && static_cast<std::size_t>(rank) < nodes.size();
        if (!is_other || ledger_.has_begun()) return {};
        return harmless_line(nodes[static_cast<std::size_t>(rank)].target);
    }
    void receive(const PortTaken& taken) {
        has_port_ = true;
        starts_.send(BeginAgents{taken.port});
    }
    void receive(const AgentRuns& runs) { ledger_.learn(runs); }
    void receive(const AgentEnded& ended) { ledger_.learn(ended); }
    void receive(const HostFailed& failed) {
        if (is_ending_) return;  // That follows from it.
        if (const auto line = ledger_.learn(failed)) say(*line);
    }

    void heard(const UpMessage& message) {
        std::visit([this](const auto& one) { receive(one); }, message);
        if (ledger_.is_hopeless() && !is_ending_) give_up();
        if (ledger_.awaits_stragglers() && !is_ending_ && !is_hurried_) {
            is_hurried_ = true;
            set_limit(options_.grace_period + kStragglerTime, [this] {
                say("some agents have not ended, though node 0 has: they are told to");
                end_all();
            });
        }
    }

    // Other hosts may be about to fail, too, and are to be named with this one.
    void give_up() {
        if (!ledger_.why_not_begun() || starts_.are_settled()) return end_unbegun();
        if (std::exchange(is_giving_up_, true)) return;
        set_limit(kOtherFailures, [this] { end_unbegun(); });
    }

    void end_unbegun() {
        if (is_ending_) return;
        if (const auto why = ledger_.why_not_begun()) say(*why);
        end_all();
    }

    void end_all() {
        if (std::exchange(is_ending_, true)) return;
        starts_.send(EndAgents{});
        set_limit(options_.grace_period + kEndTime, [this] {
            for (const std::string& target : starts_.left())
                say(target + ": has not ended after it was told to, and is left to itself");
            starts_.kill();
        });
    }

    void set_limit(std::chrono::milliseconds time, std::function<void()> on_over) {
        limit_.expires_after(time);
        limit_.async_wait([on_over = std::move(on_over)](const boost::system::error_code& cancelled) {
            if (!cancelled) on_over();
        });
    }

    void say(const std::string& text) {
        console_.write(true, fmt::format("{}{}\n", kLauncherMark, harmless_line(text, kMaxSaid)));
    }

    void hold_if_due() { starts_.hold(console_.is_full()); }

    void look_for_end() {
        hold_if_due();
        if (!starts_.are_over()) return;
        if (!is_ending_ && ledger_.is_hopeless()) end_unbegun();
        limit_.cancel();
        if (console_.is_empty()) return context_.stop();
        await_console();
    }

    // A reader that takes nothing does not hold the starter for ever.
    void await_console() {
        written_ = console_.written();
        set_limit(StartConsole::kPatience, [this] {
            if (console_.written() != written_) return await_console();
            console_.give_up();
            context_.stop();
        });
    }

    static constexpr std::size_t kMaxSaid = 1000;

    const StarterOptions& options_;
    StartLedger ledger_;
    boost::asio::io_context context_{1};
    boost::asio::signal_set signals_{context_};
    boost::asio::steady_timer limit_{context_};
    StartConsole console_{context_.get_executor(), [this] { look_for_end(); }};
    EchoFilter echoes_;
    HostStarts starts_{context_.get_executor(),
                       {.on_message = [this](const UpMessage& message) { heard(message); },
                        .on_over = [this] { look_for_end(); }}};
    std::uint64_t written_ = 0;
    int signal_ = 0;
    Interrupts interrupts_;
    bool has_port_ = false;
    bool is_giving_up_ = false;
    bool is_ending_ = false;
    bool is_hurried_ = false;
};

}  // namespace

int run_starter(const StarterOptions& options) { return JobStarter(options).run(); }

}  // namespace ddprun::inline launch
