// WallTimer: tells when the wall clock has reached a time, also where somebody sets that clock meanwhile.
//
// Used on the executor's thread; decides nothing. Destroyed, it tells nothing more.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <optional>

#include "rendezvous/system/alive.hpp"

namespace ddprun::inline launch {

class WallTimer {
  public:
    // Throws system_error where the system has no timer for us.
    WallTimer(const boost::asio::any_io_executor& executor, std::function<void()> on_time);

    // In place of the time before, if there was one; nothing: at no time.
    void set(std::optional<std::int64_t> unix_ms);

  private:
    void wait();

    boost::asio::posix::stream_descriptor timer_;
    std::function<void()> on_time_;
    Alive alive_;
};

}  // namespace ddprun::inline launch
