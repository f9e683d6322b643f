#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

#include "launcher/agent/round_workers.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/features/features.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/output/worker_channel.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using TerminalStream = boost::asio::posix::stream_descriptor;

constexpr std::size_t kRelayChunk = 4096;
// A terminal that takes nothing holds up the end for so long.
constexpr std::chrono::milliseconds kDisplayTimeout{1'000};

int open_again(int terminal) {
    const std::string path = fmt::format("/proc/self/fd/{}", terminal);
    const int fd = ::open(path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail_errno(errno, "cannot open the terminal for the rank of --tty");
    return fd;
}

// Output keeps its processing, since the other ranks' lines end in a line feed only.
termios raw_modes(termios modes) {
    const tcflag_t output = modes.c_oflag;
    ::cfmakeraw(&modes);
    modes.c_oflag = output;
    return modes;
}

enum class Step { done, not_yet, over };

// Reads once if nothing is pending, writes once.
Step step(int from, int to, std::string& pending) {
    if (pending.empty()) {
        std::array<char, kRelayChunk> buffer;
        const ssize_t count = ::read(from, buffer.data(), buffer.size());
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Step::not_yet;
        if (count <= 0) return Step::over;
        pending.assign(buffer.data(), static_cast<std::size_t>(count));
    }
    const ssize_t count = ::write(to, pending.data(), pending.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Step::not_yet;
    if (count < 0) return Step::over;
    pending.erase(0, static_cast<std::size_t>(count));
    return Step::done;
}

bool readable(int fd) {
    pollfd event{fd, POLLIN, 0};
    return ::poll(&event, 1, 0) > 0;
}

// TerminalRelay lends the launcher's terminal to one worker, for --tty.
//
// The worker gets a pseudo-terminal, the terminal of its own session. Meanwhile the real one is raw: every
// key goes to the worker as it is, also Ctrl-C and Ctrl-Z, and every byte comes back. So a debugger works as
// it does without a launcher, and the rest of the job is not disturbed by its keys.
//
// One for a round, made and driven on the agent's thread; nothing is called back. Destroyed early, it puts
// the real terminal back as it was.
class TerminalRelay {
  public:
    // `terminal` is a descriptor of the real one; another one is opened, so that the modes of its owner's
    // descriptor stay as they are. Throws system_error when no pseudo-terminal can be had.
    TerminalRelay(const boost::asio::any_io_executor& executor, int terminal)
        : pseudo_(executor), real_(executor, open_again(terminal)) {
        WorkerChannel channel = make_interactive_channel(terminal);
        worker_end_ = std::move(channel.writer);
        pseudo_.assign(channel.reader.release());
        has_modes_ = ::tcgetattr(real_.native_handle(), &before_) == 0;
        set_ = raw_modes(before_);
    }
    ~TerminalRelay() { finish(); }

    // It becomes the worker's streams; open until start().
    int worker_end() const { return worker_end_.get(); }
    // Has keys and bytes pass from now on: the worker has its end.
    void start() {
        worker_end_.reset();
        raw_ = has_modes_ && ::tcsetattr(real_.native_handle(), TCSANOW, &set_) == 0;
        pass(keys_);
        pass(display_);
    }
    // Adds how the real terminal was, and will be from start() on; nothing once it is as it was.
    void add_to(LauncherTraces& traces) const {
        if (!has_modes_ || !pseudo_.is_open()) return;
        traces.modes_before = bytes_of_modes(before_);
        traces.modes_set = bytes_of_modes(set_);
    }
    // Follows the real terminal, which has another size (SIGWINCH).
    void window_changed() {
        if (pseudo_.is_open()) copy_window_size(real_.native_handle(), pseudo_.native_handle());
    }
    // Ends it when the worker and all that it started have ended: shows what is still on the way and puts the
    // real terminal back as it was. Waits kDisplayTimeout at most for a terminal that somebody has stopped
    // (Ctrl-S).
    void finish() {
        alive_.end();
        if (!pseudo_.is_open()) return;
        worker_end_.reset();
        show_rest();
        pseudo_.close();
        if (raw_) ::tcsetattr(real_.native_handle(), TCSANOW, &before_);
        real_.close();
    }

  private:
    // A Direction has what was read and is not yet written.
    struct Direction {
        TerminalStream& from;
        TerminalStream& to;
        std::string pending;
    };

    void pass(Direction& direction) {
        auto next = alive_.guard([this, &direction](const boost::system::error_code& error) {
            if (error) return;
            if (step(direction.from.native_handle(), direction.to.native_handle(), direction.pending) !=
                Step::over) {
                pass(direction);
            }
        });
        if (direction.pending.empty()) {
            direction.from.async_wait(TerminalStream::wait_read, std::move(next));
        } else {
            direction.to.async_wait(TerminalStream::wait_write, std::move(next));
        }
    }
    // No writer is left, so what there is can be read without waiting.
    void show_rest() {
        const auto deadline = std::chrono::steady_clock::now() + kDisplayTimeout;
        while (step(pseudo_.native_handle(), real_.native_handle(), display_.pending) != Step::over) {
            // All is taken and shown, or there is nothing to take: only what cannot be killed still has the
            // other end.
            if (display_.pending.empty()) {
                if (!readable(pseudo_.native_handle())) return;
                continue;
            }
            pollfd writable{real_.native_handle(), POLLOUT, 0};
            if (has_passed(deadline) || ::poll(&writable, 1, poll_timeout(deadline)) == 0) return;
        }
    }

    OwnedDescriptor worker_end_;
    TerminalStream pseudo_;
    TerminalStream real_;
    Direction keys_{real_, pseudo_, {}};
    Direction display_{pseudo_, real_, {}};
    termios before_{};
    termios set_{};
    bool has_modes_ = false;
    bool raw_ = false;
    Alive alive_;  // until finish()
};

// As the shell expects it, which can then continue this process; without such a shell it does not stop at
// all.
void stop_this_process() {
    struct sigaction by_default = {};
    struct sigaction ours = {};
    by_default.sa_handler = SIG_DFL;
    ::sigaction(SIGTSTP, &by_default, &ours);
    ::raise(SIGTSTP);
    ::sigaction(SIGTSTP, &ours, nullptr);
}

class Terminal final : public Feature {
  public:
    void began(AgentControls& agent) override { agent_ = &agent; }
    void learnt(const AgentNews& news) override {
        if (std::holds_alternative<StopTyped>(news)) stop();
        if (!std::holds_alternative<WindowChanged>(news)) return;
        agent_->pump().window_changed();
        if (relay_) relay_->window_changed();
    }
    void round_begins(const RoundReady& round, RoundAdditions& added) override {
        relay_.reset();
        if (!local_rank_of_tty(agent_->options(), round) || ::isatty(STDIN_FILENO) == 0) return;
        relay_.emplace(agent_->executor(), STDIN_FILENO);
        added.launcher = {.terminal = GivenDescriptor{relay_->worker_end()},
                          .output_is_terminal = ::isatty(STDOUT_FILENO) != 0,
                          .error_is_terminal = ::isatty(STDERR_FILENO) != 0};
    }
    void workers_run(const RoundReady&) override {
        if (relay_) relay_->start();
    }
    void round_over() override {
        if (relay_) relay_->finish();
    }
    void agent_leaves() override { relay_.reset(); }
    void add_to(LauncherTraces& traces) const override {
        if (relay_) relay_->add_to(traces);
    }

  private:
    // The workers stand still first, and the coordinator knows; all go on when the launcher does (fg).
    void stop() {
        agent_->tell(Suspended{});
        if (auto* round = agent_->round()) round->freeze();
        agent_->link().suspend([this] {
            stop_this_process();
            if (auto* round = agent_->round()) round->thaw();
            agent_->tell(Resumed{});
            agent_->link().resume();
        });
    }

    AgentControls* agent_ = nullptr;
    std::optional<TerminalRelay> relay_;  // in a round with the rank of --tty here, if we have a terminal
};

}  // namespace

std::unique_ptr<Feature> make_terminal(const FeatureInputs&) { return std::make_unique<Terminal>(); }

}  // namespace launch
}  // namespace ddprun
