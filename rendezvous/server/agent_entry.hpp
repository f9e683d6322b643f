// The first words of an agent, or of its door for workers, at the job's port: whether it has the job's key, where there is
// one, and then its first message. On the port's thread.
//
// The first words of a sealed conversation may be another's, played again: only a record that opens shows that the caller
// has the key now.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/secure/sealed_records.hpp"

namespace ddprun::inline job {

// Whether these may be the first bytes of an agent, and whether they are.
bool may_be_agent(std::string_view first);
bool is_agent(std::string_view first);

struct AgentEntry {
    bool is_open = false;
    std::string
        first_bytes;  // unsealed: of a door what its first record says, of an agent at least its first message
    std::optional<SealedRecords> records;  // of a sealed conversation, behind those
    bool is_door = false;                  // it speaks for its workers to the store, see DoorHost
    std::string why;  // it was turned away, for the user of this node; empty: it broke off
};

// Who is turned away has been told so. `first`: what the agent has said so far. How long that takes bounds who closes the
// socket.
boost::asio::awaitable<AgentEntry> enter(boost::asio::ip::tcp::socket& socket, std::string first,
                                         const std::optional<SecretKey>& key);

}  // namespace ddprun::inline job
