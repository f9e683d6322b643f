// ConsoleWriter writes to one of the launcher's own standard streams without ever blocking the caller. The
// stream stays blocking for the other programs that have it (the shell, programs in a pipeline).
//
// A pipe or terminal is opened a second time through /proc, which gives a description of our own. A socket is
// sent to with MSG_DONTWAIT; files do not block. Where a second opening is refused, writes are preceded by a
// poll and so small that a pipe takes them whole. Used by one thread, in which SIGPIPE is blocked.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

class ConsoleWriter {
  public:
    // Takes `fd`, which stays the caller's and open.
    explicit ConsoleWriter(int fd);

    // Returns the bytes to be written next. Text may be put behind them, then flush() is called.
    std::string& buffer() { return buffer_; }

    // Writes these bytes, behind the buffer. What the console does not take goes into the buffer.
    void write(std::string_view bytes);

    // Writes as much of the buffer as the console takes.
    void flush();

    // Returns true if the console did not take everything: wait until poll_fd() is writable, then flush().
    bool blocked() const { return blocked_; }
    int poll_fd() const { return own_ ? own_.get() : fd_; }

    // Throws away, and counts, what is not written yet and all that comes. Called when a console that takes
    // nothing is not waited for any longer.
    void give_up();
    bool gave_up() const { return gave_up_; }

    // Returns true if the stream has no reader any more; everything is thrown away.
    bool closed() const { return closed_; }

    bool is_terminal() const { return terminal_; }
    std::size_t columns() const;

    std::size_t waiting() const { return buffer_.size() - begin_; }
    std::uint64_t written() const { return written_; }
    std::uint64_t dropped() const { return dropped_; }

  private:
    enum class Manner { plain, own_description, socket, small_writes };

    std::size_t write_some(std::string_view bytes);
    long write_once(std::string_view bytes) const;

    int fd_;
    OwnedDescriptor own_;
    Manner manner_ = Manner::plain;
    bool terminal_ = false;
    bool closed_ = false;
    bool blocked_ = false;
    bool gave_up_ = false;
    std::string buffer_;
    std::size_t begin_ = 0;  // of what is left in the buffer
    std::uint64_t written_ = 0;
    std::uint64_t dropped_ = 0;
};

// AwaitedConsole is a console together with the wait for room in it. Used on the thread of the executor; it
// outlives the wait.
class AwaitedConsole {
  public:
    AwaitedConsole(const boost::asio::any_io_executor& executor, int fd) : writer(fd), room_(executor) {}

    // Has `on_room` called, once, when the console takes something again, if it is blocked and not awaited
    // yet. Returns false for a console that cannot be waited for, as it is always ready.
    bool await_room(std::function<void()> on_room);

    ConsoleWriter writer;

  private:
    boost::asio::posix::stream_descriptor room_;  // readable while the console takes something
    bool is_awaited_ = false;
};

// Returns true if the two descriptors are the same file, pipe or terminal.
bool are_one_console(int a, int b);

}  // namespace launch
}  // namespace ddprun
