// DoorService: the door's port and its connection to node 0, which is made when the first worker of a round comes.
//
// Owned by StoreDoor: everything on the thread that runs the executor, or while nobody runs it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/door/sealed_link.hpp"
#include "rendezvous/link/door_clients.hpp"
#include "rendezvous/link/door_options.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/server/connection_limit.hpp"

namespace ddprun::inline job {

class DoorService final : private DoorFrameSink {
  public:
    // While node 0 cannot be reached, workers wait so long; then they are hung up on, and may come again.
    static constexpr std::chrono::seconds kLinkTimeout{30};

    DoorService(std::vector<boost::asio::ip::tcp::acceptor> acceptors, StoreDoorOptions options);
    ~DoorService() override;

    void start();
    void begin_round(const Endpoint& coordinator);

  private:
    std::string& text() override;
    bool has_room() override;

    void take(boost::asio::ip::tcp::socket socket);
    void want_link();
    boost::asio::awaitable<void> connect(int round);
    boost::asio::awaitable<bool> connect_once(int round, std::chrono::milliseconds timeout);
    void use(boost::asio::ip::tcp::socket socket, const NoiseKeys& keys);
    void drop_all();
    void remark(const std::optional<std::string>& sentence) const;

    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
    StoreDoorOptions options_;
    ConnectionOwners owners_;
    CallerGate gate_;
    ConnectionLimit limit_;
    std::optional<Endpoint> coordinator_;
    int round_ = 0;  // so many have begun
    DoorClients clients_;
    std::shared_ptr<SealedLink> link_;
    bool is_connecting_ = false;
    std::string early_;       // for the link, before there is one
    bool is_missed_ = false;  // room in it, by a client
};

}  // namespace ddprun::inline job
