// A thread that serves until it is told to stop, whatever its handlers throw: an allocation that failed, a listener that
// broke. One failed handler must not take the launcher with it, whose workers would be killed without a word.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <thread>

namespace ddprun::inline job {

// Runs `context` until that is stopped or has nothing left to do. on_failed is called on that thread, with what went
// wrong, the first time that something escapes from a handler; the others are served all the same, so that the owner
// can end the job in order. Throws as start_without_signals does.
std::thread start_serving(boost::asio::io_context& context,
                          std::function<void(const std::string& what)> on_failed);

}  // namespace ddprun::inline job
