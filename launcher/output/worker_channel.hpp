// A WorkerChannel is the way of one stream from a worker to the launcher: a pipe, or a pseudo-terminal.
//
// Both ends are close-on-exec and none of the numbers 0 to 2; the reading end does not block.
#pragma once

#include <termios.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <string>

#include "launcher/process/process_runner.hpp"
#include "rendezvous/system/alive.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

struct WorkerChannel {
    OwnedDescriptor reader;  // the launcher's
    OwnedDescriptor writer;  // becomes the worker's stream
};

// A pipe is asked to hold so much, so that a worker is not woken for every few lines and goes on while the
// launcher is busy with others. Less is fine: the kernel limits what one user's pipes hold together (64 MiB
// usually, and beyond that new pipes of the user are tiny), so only the first pipes of a round are large.
inline constexpr int kLargePipeSize = 1024 * 1024;
inline constexpr int kPipeSize = 256 * 1024;
inline constexpr int kLargePipes = 16;

// Throws system_error when there are no descriptors left.
WorkerChannel make_pipe_channel(int size);

// Makes a pseudo-terminal of the size of the terminal `like`, which passes bytes on as they are: what is right for
// that terminal is done by that terminal. A pipe of `size` where there are no pseudo-terminals.
WorkerChannel make_terminal_channel(int like, int size);

// Makes a pseudo-terminal of the size and with the modes of the terminal `like`, for a program that a person works
// with. Throws system_error where there are none.
WorkerChannel make_interactive_channel(int like);

// Gives the worker's terminal the present size of the terminal `like`.
void copy_window_size(int like, int reader);

// TerminalRelay lends the launcher's terminal to one worker, for --tty.
//
// The worker gets a pseudo-terminal, the terminal of its own session. Meanwhile the real one is raw: every
// key goes to the worker as it is, also Ctrl-C and Ctrl-Z, and every byte comes back. So a debugger works as
// it does without a launcher, and the rest of the job is not disturbed by its keys.
//
// One for a round, made and driven on the agent's thread; nothing is called back. Destroyed early, it puts
// the real terminal back as it was.

// A terminal that takes nothing holds up the end for so long.
inline constexpr std::chrono::milliseconds kDisplayTimeout{1'000};

class TerminalRelay {
  public:
    // `terminal` is a descriptor of the real one; another one is opened, so that the modes of its owner's
    // descriptor stay as they are. Throws system_error when no pseudo-terminal can be had.
    TerminalRelay(const boost::asio::any_io_executor& executor, int terminal);
    ~TerminalRelay();

    // It becomes the worker's streams; open until start().
    int worker_end() const { return worker_end_.get(); }

    // Has keys and bytes pass from now on: the worker has its end.
    void start();

    // Adds how the real terminal was, and will be from start() on; nothing once it is as it was.
    void add_to(LauncherTraces& traces) const;

    // Follows the real terminal, which has another size (SIGWINCH).
    void window_changed();

    // Ends it when the worker and all that it started have ended: shows what is still on the way and puts the real
    // terminal back as it was. Waits kDisplayTimeout at most for a terminal that somebody has stopped
    // (Ctrl-S).
    void finish();

  private:
    // A Direction has what was read and is not yet written.
    struct Direction {
        boost::asio::posix::stream_descriptor& from;
        boost::asio::posix::stream_descriptor& to;
        std::string pending;
    };

    void pass(Direction& direction);
    void show_rest();

    OwnedDescriptor worker_end_;
    boost::asio::posix::stream_descriptor pseudo_;
    boost::asio::posix::stream_descriptor real_;
    Direction keys_{real_, pseudo_, {}};
    Direction display_{pseudo_, real_, {}};
    termios before_{};
    termios set_{};
    bool has_modes_ = false;
    bool raw_ = false;
    Alive alive_;  // until finish()
};

}  // namespace ddprun::inline launch
