// The first words of an agent, or of its door for workers, at the job's port: whether it has the job's key, where there is
// one. On the port's thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/secure/noise_nnpsk0.hpp"

namespace ddprun {

// Whether these may be the first bytes of an agent, and whether they are.
bool may_be_agent(std::string_view first);
bool is_agent(std::string_view first);

struct AgentEntry {
    bool is_open = false;
    std::string first_bytes;        // of what it has to say, if it is let in; of records where there are keys
    std::optional<NoiseKeys> keys;  // of a sealed conversation
    bool is_door = false;           // it speaks for its workers to the store, see DoorHost
    std::string why;                // it was turned away, for the user of this node; empty: it broke off
};

// Who is turned away has been told so. `first`: what the agent has said so far.
boost::asio::awaitable<AgentEntry> enter(boost::asio::ip::tcp::socket& socket, std::string first,
                                         const std::optional<SecretKey>& key);

}  // namespace ddprun
