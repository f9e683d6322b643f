// PortService listens at the job's port, and tells by the first bytes what calls: agents are handed over, all
// other callers get the store. Runs on a thread of its own, so that neither a busy store nor strangers delay
// the coordinator.
//
// Owned by RendezvousServer: everything, the destructor included, on the thread that runs the executor, or
// while no thread runs it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/door/door_host.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/server/caller_gate.hpp"
#include "rendezvous/server/port_calls.hpp"
#include "rendezvous/store/store_service.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace job {

// Runs `context` on a thread until it is stopped or has nothing left to do, whatever its handlers throw (an
// allocation that failed, a listener that broke). A failed handler must not take the launcher with it, or the
// workers would be killed without a word. The first time that something escapes from a handler, on_failed is
// called on that thread with what went wrong. The others are served all the same, so that the owner can end
// the job in order. Throws as start_without_signals does.
inline std::thread start_serving(boost::asio::io_context& context,
                                 std::function<void(const std::string& what)> on_failed) {
    return start_without_signals([&context, on_failed = std::move(on_failed)]() mutable {
        for (;;) {
            try {
                context.run();
                return;
            } catch (const std::exception& error) {
                if (const auto tell = std::exchange(on_failed, {})) tell(error.what());
            }
        }
    });
}

// AgentEntry: what an agent, or its door for workers, has shown by its first words: whether it has the job's
// key, if there is one, and then its first message.
struct AgentEntry {
    bool is_open = false;
    // first_bytes: unsealed; of a door what its first record says, of an agent at least its first message.
    std::string first_bytes;
    std::optional<SealedRecords> records;  // of a sealed conversation, behind those
    bool is_door = false;  // the agent's door speaks for its workers to the store, see DoorHost
    std::string why;       // why it was turned away, for the user of this node; empty: it broke off
};

// PortServiceEvents: called on the service's thread.
struct PortServiceEvents {
    // on_agent hands over the connection of an agent that has said its first message, of this service's
    // executor. `call` is kept as long as the connection is open, and is told what has come of that message.
    std::function<void(boost::asio::ip::tcp::socket socket, AgentEntry entry, std::shared_ptr<PortCall> call)>
        on_agent;
    // on_remark tells the user of this node something that the user should know; each sentence once.
    std::function<void(const std::string& sentence)> on_remark;
    // on_refused tells auditors, within RefusedCallers' bounds.
    std::function<void(const RefusedCaller& caller)> on_refused;
};

struct PortServiceOptions {
    std::optional<SecretKey> key;        // what agents are asked for; nothing: nothing
    std::size_t spared_descriptors = 0;  // of this process, that are not for connections
};

class PortService {
  public:
    // PortService takes listening sockets, and uses their executor.
    PortService(std::vector<boost::asio::ip::tcp::acceptor> acceptors, PortServiceOptions options,
                PortServiceEvents events);

    // Takes calls from then on. Throws, by way of the executor, when a listener itself is broken.
    void start();

    // Empties the store, as every round must find it, and opens it to these machines only. If workers go
    // through doors, it opens to the agents there, and to our own user's processes on this machine.
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
    void open_door(boost::asio::ip::tcp::socket socket, AgentEntry entry, const CallerGate::Caller& caller,
                   std::shared_ptr<PortCall> call);
    void remark(const std::optional<std::string>& sentence) const;
    void turn_away(const CallerGate::Caller& caller, const std::string& why = {});

    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
    PortServiceEvents events_;
    ConnectionOwners owners_;
    CallerGate gate_;
    std::shared_ptr<PortCalls> calls_;  // calls may outlive this service
    std::shared_ptr<StoreService> store_;
    std::unordered_map<std::uint64_t, Door> doors_;  // doors to the store
    std::uint64_t last_door_ = 0;
    std::optional<SecretKey> key_;
};

}  // namespace job
}  // namespace ddprun
