// StartConsole: the starter's own stdout and stderr, which it never waits for. Used on the thread of the executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <string_view>

#include "launcher/output/console_writer.hpp"

namespace ddprun::inline launch {

class StartConsole {
  public:
    // What may wait in it; beyond that nothing more should come.
    static constexpr std::size_t kMaxWaiting = 4 * 1024 * 1024;
    // How long a console may take nothing once the job is over.
    static constexpr std::chrono::seconds kPatience{60};

    // `on_room` is called when is_full() or is_empty() may have changed.
    StartConsole(const boost::asio::any_io_executor& executor, std::function<void()> on_room);

    void write(bool is_error, std::string_view text);
    bool is_full() const;
    bool is_empty() const;
    // Throws away what waits.
    void give_up();
    std::uint64_t written() const;

  private:
    struct Screen {
        Screen(const boost::asio::any_io_executor& executor, int fd) : writer(fd), room(executor) {}
        ConsoleWriter writer;
        boost::asio::posix::stream_descriptor room;  // readable while the console takes something
        bool is_awaited = false;
    };

    void await_room(Screen& screen);

    std::function<void()> on_room_;
    std::deque<Screen> screens_;  // stdout, and stderr if it is not the same thing
};

}  // namespace ddprun::inline launch
