// The conversation of an agent with a coordinator in its own process: nobody can come before it or in its place, and it
// needs neither a descriptor nor a network.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <utility>

#include "rendezvous/control/control_channel.hpp"

namespace ddprun::inline job {

// Both ends, each for the thread of its executor. One end may be closed and forgotten, and then its executor be
// destroyed, while the other is in use; an end must be closed before its executor goes.
std::pair<std::shared_ptr<ControlChannel>, std::shared_ptr<ControlChannel>> make_local_channel(
    const boost::asio::any_io_executor& one, const boost::asio::any_io_executor& other);

}  // namespace ddprun::inline job
