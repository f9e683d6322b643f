#include "launcher/start/starter.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>

#include "launcher/harmless_text.hpp"
#include "launcher/output/output_route.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "launcher/start/host_connections.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// StartConsole is the starter's own stdout and stderr, which it never waits for. Used on the thread of the
// executor.
class StartConsole {
  public:
    // This much may wait in it; beyond that nothing more should come.
    static constexpr std::size_t kMaxWaiting = 4 * 1024 * 1024;
    // A console may take nothing for so long once the job is over.
    static constexpr std::chrono::seconds kPatience{60};

    // `on_room` is called when is_full() or is_empty() may have changed.
    StartConsole(const boost::asio::any_io_executor& executor, std::function<void()> on_room)
        : on_room_(std::move(on_room)) {
        screens_.emplace_back(executor, STDOUT_FILENO);
        if (!are_one_console(STDOUT_FILENO, STDERR_FILENO)) screens_.emplace_back(executor, STDERR_FILENO);
    }

    // Shows a text of one of the streams, on a line of its own where another one's line has not ended.
    void write(int stream, bool is_error, std::string_view text) {
        OutputConsole& screen = is_error ? screens_.back() : screens_.front();
        screen.show(stream, {}, text);
        screen.writer.flush();
        await_room(screen);
    }

    // Shows a line of the starter's own.
    void say(std::string_view line) {
        write(OutputConsole::kLauncherStream, true, fmt::format("{}{}\n", kLauncherMark, line));
    }

    bool is_full() const {
        return std::any_of(screens_.begin(), screens_.end(), [](const OutputConsole& screen) {
            return screen.writer.blocked() && screen.writer.waiting() > kMaxWaiting;
        });
    }
    bool is_empty() const {
        return std::none_of(screens_.begin(), screens_.end(),
                            [](const OutputConsole& screen) { return screen.writer.blocked(); });
    }

    // Throws away what waits.
    void give_up() {
        for (OutputConsole& screen : screens_) screen.writer.give_up();
    }

    std::uint64_t written() const {
        std::uint64_t sum = 0;
        for (const OutputConsole& screen : screens_) sum += screen.writer.written();
        return sum;
    }

  private:
    void await_room(OutputConsole& screen) {
        const bool can_wait = screen.await_room([this, &screen] {
            screen.writer.flush();
            await_room(screen);
            on_room_();
        });
        if (!can_wait) screen.writer.flush();
    }

    std::function<void()> on_room_;
    std::deque<OutputConsole> screens_;  // stdout, and stderr if it is not the same thing
};

// Agents that were told to end may take so much longer than one grace period.
constexpr std::chrono::seconds kEndTime{30};
// They may take so much longer where node 0 has ended and nobody else was told anything: they give each other
// time, too.
constexpr std::chrono::seconds kStragglerTime{90};

// Hosts that are still being connected to may take so long to fail, once one has.
constexpr std::chrono::seconds kOtherFailures{2};

class JobStarter {
  public:
    explicit JobStarter(const StarterOptions& options) : options_(options), ledger_(options.terms) {}

    int run() {
        for (const auto* signals : {&options_.ending_signals, &options_.forwarded_signals}) {
            for (const int signal : *signals) signals_.add(signal);
        }
        for (const int signal : unexpected_signals()) signals_.add(signal);
        await_signal();
        starts_.begin(options_.plan, branches_of_starter(options_.plan.nodes, options_.plan.fan_out));
        context_.run();
        block_signals();
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
        const auto is_among = [signal](const std::vector<int>& signals) {
            return std::find(signals.begin(), signals.end(), signal) != signals.end();
        };
        bool ends = is_among(options_.ending_signals);
        if (!ends && !is_among(options_.forwarded_signals)) {
            console_.say(unexpected_text(signal));
            signal = SIGTERM;
            ends = true;
        }
        // One agent alone passes it on to every worker of the job. One that ends the job all are sent: of an
        // elastic one only this agent's node would leave, and an impatient SIGINT ends the grace of the agent
        // that gets it. Whether it is one is known here: on the way to some agents the first may be held up.
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
        // An agent that nobody needs any more says nothing new by its end.
        if (output.is_error && is_ending_ && !ledger_.has_begun()) return;
        console_.write(
            2 * output.rank + (output.is_error ? 1 : 0), output.is_error,
            output.is_error ? echoes_.fresh(output.rank, output.text, speaker(output.rank)) : output.text);
        hold_if_due();
    }
    // While nodes meet, what one of them has to say is its own trouble; then a report is everybody's, and
    // names nodes itself.
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
        if (is_ending_) return;  // The failure follows from it.
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

    void say(const std::string& text) { console_.say(harmless_line(text, kMaxSaid)); }

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
    HostConnections starts_{context_.get_executor(),
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

std::string EchoFilter::fresh(int node, std::string_view text, std::string_view host) {
    std::string kept;
    while (!text.empty()) {
        const auto newline = text.find('\n');
        std::string_view line = text.substr(0, newline == text.npos ? newline : newline + 1);
        text.remove_prefix(line.size());
        if (line.starts_with(kLauncherMark)) {
            if (first_.size() >= kMaxEchoes) first_.clear();
            if (first_.try_emplace(std::string(line), node).first->second != node) continue;
            // One that is indented belongs to that before it.
            const std::string_view said = line.substr(kLauncherMark.size());
            if (!host.empty() && !said.starts_with(' ')) {
                kept.append(kLauncherMark).append(host).append(": ");
                line = said;
            }
        }
        kept += line;
    }
    return kept;
}

bool StartLedger::is_gone(int rank) const {
    return nodes_.at(static_cast<std::size_t>(rank)) != Node::awaited;
}

int StartLedger::gone() const {
    return static_cast<int>(
        nodes_.size() - static_cast<std::size_t>(std::count(nodes_.begin(), nodes_.end(), Node::awaited)));
}

std::optional<std::string> StartLedger::learn(const HostFailed& failed) {
    int news = 0;
    for (const int rank : failed.ranks) {
        if (rank < 0 || rank >= terms_.nodes || is_gone(rank)) continue;
        nodes_[static_cast<std::size_t>(rank)] = Node::failed;
        ++news;
    }
    if (news == 0) return std::nullopt;
    std::string line = failed.text;
    if (!begun_) unstarted_ += news;
    if (begun_) line += "; what its agent says is not shown any more";
    if (news > 1) line += fmt::format(", nor that of {} hosts behind it", news - 1);
    return line;
}

void StartLedger::learn(const AgentRuns&) { begun_ = true; }

void StartLedger::learn(const AgentEnded& ended) {
    if (ended.rank < 0 || ended.rank >= terms_.nodes) return;
    nodes_[static_cast<std::size_t>(ended.rank)] = Node::ended;
    last_code_ = ended.code;
    if (ended.rank == 0 && !(ended.by_signal && terms_.may_outlive_0)) code_of_0_ = ended.code;
    if (!begun_ && !first_code_) first_code_ = ended.code;
}

bool StartLedger::is_hopeless() const {
    return !begun_ && (is_gone(0) || terms_.nodes - gone() < terms_.least);
}

int StartLedger::exit_code() const {
    if (!begun_ && unstarted_ > 0 && terms_.nodes - unstarted_ < terms_.least) return kExitSystem;
    if (!begun_ && first_code_.value_or(0) != 0) return *first_code_;
    if (code_of_0_) return *code_of_0_;
    // That it has succeeded is no other node's to say, but where others may have gone on without node 0.
    const int code = last_code_.value_or(kExitSystem);
    return code == 0 && !(begun_ && terms_.may_outlive_0) ? kExitSystem : code;
}

std::optional<std::string> StartLedger::why_not_begun() const {
    if (begun_ || unstarted_ == 0 || terms_.nodes - unstarted_ >= terms_.least) return std::nullopt;
    return fmt::format("{} of {} hosts could not be started, so the job is not run", unstarted_,
                       terms_.nodes);
}

int run_starter(const StarterOptions& options) { return JobStarter(options).run(); }

}  // namespace launch
}  // namespace ddprun
