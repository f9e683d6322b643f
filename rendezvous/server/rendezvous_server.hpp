// RendezvousServer: the job's one port, on the node that hosts it.
//
// Tells callers apart by their first bytes: agents (kControlMagic) talk to the Coordinator, everybody else to
// the StoreService in PyTorch's protocol. Created by node 0's agent; has its own thread, so that neither a
// busy store nor a busy launcher delays the other. The socket is bound in the constructor and kept until the
// end.
//
// Thread rules: constructor, destructor and the public functions on the owner's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {

struct RendezvousServerOptions {
    ListenPlan listen;       // the default: loopback only
    std::uint16_t port = 0;  // 0 takes a free one
    // Listening already, then the two above do not count.
    std::vector<OwnedDescriptor> sockets;
    CoordinatorOptions coordinator;
    // Descriptors of this process that connections leave to others.
    std::size_t spared_descriptors = 0;
};

// Called on the server's thread.
struct RendezvousServerEvents {
    std::function<void()> on_over;     // once: the job is over and all agents have left
    std::function<void()> on_elected;  // once: see Coordinator::is_elected()
    // See Coordinator::wish(). Told whenever that changes, and before anybody else hears of what changed it.
    std::function<void(const std::optional<RecordWish>& wish)> on_wish;
    // Told whenever it changes, and before anybody else hears of what changed it.
    std::function<void(const RoundLease& lease)> on_lease;
    // Something that the user of this node should know about the port; each sentence once.
    std::function<void(const std::string& sentence)> on_remark;
    // Once: something that nobody expected, in these words. It serves on, but the job should end.
    std::function<void(const std::string& what)> on_failed;
};

class RendezvousServer {
  public:
    // A connection that has begun to say what it is must have said it by then.
    static constexpr std::chrono::seconds kIdentifyTimeout{10};
    // Bytes waiting to be written to one agent; a slower one is dropped.
    static constexpr std::size_t kMaxPendingBytes = 4 * 1024 * 1024;

    // Binds and listens (throws as listen_tcp does), then serves from its own thread.
    RendezvousServer(RendezvousServerOptions options, RendezvousServerEvents events = {});

    // Stops at once: connections are closed, the thread is joined.
    ~RendezvousServer();

    std::uint16_t port() const;

    // Whether `on_over` was called, or is about to be.
    bool is_over() const;

    // What has come of the wish.
    void learn(const RecordNews& news);

    // By which the host's own agent reaches it: on loopback where that is possible.
    Endpoint own_endpoint() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
