// StoreDoor lets the workers of this node reach the store while another node has it. The door is a port on
// loopback, for processes of our own user only, with all bytes going over one sealed connection to node 0.
// Workers speak to it as they would to the store: each of their connections is one there, which ends when
// that one ends.
//
// Made by an agent with a key before it joins; begin_round() and the destructor are called on its thread.
// Everything else happens on a thread of the door's own, which starts with the first round.
//
// The door keeps nothing, and only the store answers: reads that several workers make of the same key all go
// to node 0. To answer a second read with what came for the first would want both dialects and all their
// replies parsed on the way. And it would work only for reads that arrived before the first had been sent, or
// a worker would miss what another one has written since. Little would be saved, since questions that come
// together travel together (scripts/README.md has the figure).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/server/refused_caller.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

struct StoreDoorOptions {
    SecretKey key;
    std::size_t spared_descriptors = 0;  // of this process, that are not for workers' connections
    FreePorts free_ports = {};
    // on_remark tells the user of this node something that the user should know; each sentence once, on the
    // door's thread.
    std::function<void(const std::string& sentence)> on_remark;
    std::function<void(const RefusedCaller& caller)> on_refused = {};  // as PortServiceEvents'
};

class StoreDoor {
  public:
    // Makes a door that listens; throws as listen_tcp does.
    static std::unique_ptr<StoreDoor> make(StoreDoorOptions options);
    // Ends all connections.
    virtual ~StoreDoor() = default;

    // Returns where the workers of this node find the door.
    virtual Endpoint endpoint() const = 0;

    // Lets workers of a new round in, with their store at the coordinator's place, and hangs up on those of
    // the one before. Before the first round no worker is served.
    virtual void begin_round(const Endpoint& coordinator) = 0;
};

}  // namespace job
}  // namespace ddprun
