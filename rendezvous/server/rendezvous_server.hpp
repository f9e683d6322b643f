// RendezvousServer serves the job's one port and its coordinator, on the node that hosts them.
//
// Two threads of its own: PortService's, which takes calls and serves the store, and CoordinatorService's; so neither a
// busy store nor a busy launcher delays what the coordinator has to say. Created by the host's agent, which joins without
// the port (call()). The socket is bound in the constructor and kept until the end.
//
// Thread rules: constructor, destructor and the public functions on the owner's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/control_channel.hpp"
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/listen_plan.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun::inline job {

struct RendezvousServerOptions {
    ListenPlan listen;       // the default: loopback only
    std::uint16_t port = 0;  // 0 takes one of `free_ports`
    FreePorts free_ports = {};
    // Listening already, then the three above do not count.
    std::vector<OwnedDescriptor> sockets;
    CoordinatorOptions coordinator;
    // Descriptors of this process that connections leave to others.
    std::size_t spared_descriptors = 0;
    // Other machines' agents must have it; nothing: none is asked for, and one that is shown is of no use.
    std::optional<SecretKey> key = {};
};

// They are called on the server's threads; the first four when CoordinatorServiceEvents says.
struct RendezvousServerEvents {
    std::function<void()> on_over;
    std::function<void()> on_elected;
    std::function<void(const std::optional<RecordWish>& wish)> on_wish;
    std::function<void(const RoundLease& lease)> on_lease;
    // Something that the user of this node should know about the port; each sentence once.
    std::function<void(const std::string& sentence)> on_remark;
    // Once: something that nobody expected, in these words. It serves on, but the job should end.
    std::function<void(const std::string& what)> on_failed;
};

class RendezvousServer {
  public:
    // Binds and listens (throws as listen_tcp does), then serves from its own threads.
    RendezvousServer(RendezvousServerOptions options, const RendezvousServerEvents& events = {});

    // Stops at once: connections are closed, the threads are joined.
    ~RendezvousServer();

    std::uint16_t port() const;

    // Says where this machine's own processes reach it: on loopback where that is possible.
    Endpoint own_endpoint() const;

    // Tells whether `on_over` was called, or is about to be.
    bool is_over() const;

    // The host's agent says what has come of the wish.
    void learn(const RecordNews& news);

    // Opens a conversation of the host's own agent with the coordinator; used on `agent`. The executor must live until the
    // conversation is closed.
    std::shared_ptr<ControlChannel> call(const boost::asio::any_io_executor& agent);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::inline job
