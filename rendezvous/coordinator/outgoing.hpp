// Outgoing: one message of the coordinator's to one agent. The four values of the coordinator return what is to be sent.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/control_wire.hpp"

namespace ddprun::inline job {

struct Outgoing {
    std::uint64_t to = 0;  // the connection of the agent
    ControlMessage message;
    bool close_after = false;  // the conversation is over once this is written
    // How all ranks have ended, which goes before the message: one for all agents that are told, since those of a large
    // job are many bytes.
    SharedEnds ends = nullptr;
};

using Messages = std::vector<Outgoing>;

// Questions of heartbeats, by the connections of the agents.
inline Messages as_messages(const std::vector<std::pair<std::uint64_t, Heartbeat>>& questions) {
    Messages out;
    for (const auto& [agent, question] : questions) out.push_back({agent, question});
    return out;
}

// To all of these nodes that are connected: a map of JobNode.
template <typename Nodes>
Messages to_all(const Nodes& nodes, const ControlMessage& message, bool close_after = false) {
    Messages out;
    for (const auto& [key, node] : nodes) {
        if (node.connected) out.push_back({node.connection, message, close_after});
    }
    return out;
}

// To all nodes, and to those that wait for another round.
template <typename Nodes, typename Queue>
Messages to_everybody(const Nodes& nodes, const Queue& queue, const ControlMessage& message,
                      bool close_after = false) {
    Messages out = to_all(nodes, message, close_after);
    for (Outgoing& more : to_all(queue, message, close_after)) out.push_back(std::move(more));
    return out;
}

}  // namespace ddprun::inline job
