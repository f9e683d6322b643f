// A thread that serves until it is told to stop, whatever its handlers throw: an allocation that failed, a listener that
// broke. One failed handler must not take the launcher with it, whose workers would be killed without a word.
#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun::inline job {

// Runs `context` until that is stopped or has nothing left to do. on_failed is called on that thread, with what went
// wrong, the first time that something escapes from a handler; the others are served all the same, so that the owner
// can end the job in order. Throws as start_without_signals does.
inline std::thread start_serving(boost::asio::io_context& context,
                                 std::function<void(const std::string& what)> on_failed) {
    return start_without_signals([&context, on_failed = std::move(on_failed)]() mutable {
        for (;;) {
            try {
                context.run();
                return;
            } catch (const std::exception& error) {
                if (const auto tell = std::exchange(on_failed, {})) tell(error.what());
            }
        }
    });
}

}  // namespace ddprun::inline job
