// PortService listens at the job's port, and tells by the first bytes who calls: agents are handed over, everybody else gets
// the store. On a thread of its own, so that neither a busy store nor strangers delay the coordinator.
//
// Owned by RendezvousServer: everything, the destructor included, on the thread that runs the executor, or while
// nobody runs it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/door/door_host.hpp"
#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/server/port_calls.hpp"
#include "rendezvous/store/store_service.hpp"

namespace ddprun::inline job {

// AgentEntry is what has come of the first words of an agent, or of its door for workers: whether it has the job's key, where
// there is one, and then its first message.
struct AgentEntry {
    bool is_open = false;
    // Unsealed: of a door what its first record says, of an agent at least its first message.
    std::string first_bytes;
    std::optional<SealedRecords> records;  // of a sealed conversation, behind those
    bool is_door = false;                  // it speaks for its workers to the store, see DoorHost
    std::string why;  // it was turned away, for the user of this node; empty: it broke off
};

// They are called on its thread.
struct PortServiceEvents {
    // Hands over the connection of an agent that has said its first message, of this service's executor; `call` is kept as long as it
    // is open, and told what has come of that message.
    std::function<void(boost::asio::ip::tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call)>
        on_agent;
    // Tells the user of this node something that he should know; each sentence once.
    std::function<void(const std::string& sentence)> on_remark;
};

struct PortServiceOptions {
    std::optional<SecretKey> key;        // what agents are asked for; nothing: nothing
    std::size_t spared_descriptors = 0;  // of this process, that are not for connections
};

class PortService {
  public:
    // The listening sockets are of that executor.
    PortService(std::vector<boost::asio::ip::tcp::acceptor> acceptors, PortServiceOptions options,
                PortServiceEvents events);

    // Calls are taken from then on. Throws, by way of the executor, when a listener itself is broken.
    void start();

    // The store is empty, as every round must find it, and open to these machines only; or, if workers go through doors, to
    // the agents there, and to our own user's processes on this machine.
    void begin_round(const std::vector<boost::asio::ip::address>& machines, bool through_doors);
    void admit(const std::vector<boost::asio::ip::address>& machines) { gate_.admit(machines); }

  private:
    struct Door {
        std::shared_ptr<PortCall> call;
        std::unique_ptr<DoorHost> host;
    };

    void take(boost::asio::ip::tcp::socket socket);
    boost::asio::awaitable<void> identify(boost::asio::ip::tcp::socket socket,
                                          std::shared_ptr<PortCall> call);
    boost::asio::awaitable<void> let_agent_in(boost::asio::ip::tcp::socket& socket, std::string first,
                                              const CallerGate::Caller& caller,
                                              std::shared_ptr<PortCall> call);
    void open_door(boost::asio::ip::tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call);
    void remark(const std::optional<std::string>& sentence) const;

    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
    PortServiceEvents events_;
    ConnectionOwners owners_;
    CallerGate gate_;
    std::shared_ptr<PortCalls> calls_;  // some may outlive this service
    StoreService store_;
    std::unordered_map<std::uint64_t, Door> doors_;  // to that
    std::uint64_t last_door_ = 0;
    std::optional<SecretKey> key_;
};

}  // namespace ddprun::inline job
