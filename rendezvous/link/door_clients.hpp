// DoorClients are the workers of this node that use the store through its door: what they send goes into the link to node 0 as
// frames, and what comes from there to them, each as far as the other side takes it (see door_link.hpp).
//
// Owned by DoorService, on its thread. A client that is silent, slow or stuck costs kDoorWindow bytes and holds up nobody.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/door/door_link.hpp"
#include "rendezvous/net/ready_set.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline job {

// DoorFrameSink takes the frames that go to node 0.
class DoorFrameSink {
  public:
    DoorFrameSink() = default;
    DoorFrameSink(const DoorFrameSink&) = delete;
    DoorFrameSink& operator=(const DoorFrameSink&) = delete;
    virtual ~DoorFrameSink() = default;
    // Gives the text whose bytes go out soon; frames are appended to it.
    virtual std::string& text() = 0;
    // Tells whether more may be appended. If not, DoorClients::has_room() is called when it may again.
    virtual bool has_room() = 0;
};

class DoorClients {
  public:
    // `sink` outlives it.
    DoorClients(const boost::asio::any_io_executor& executor, DoorFrameSink& sink);
    ~DoorClients();
    DoorClients(const DoorClients&) = delete;
    DoorClients& operator=(const DoorClients&) = delete;

    // Adds a client, by its non-blocking socket.
    void add(OwnedDescriptor socket);
    // Takes what node 0 has sent; false: it should not have said that.
    bool take(std::string_view plain);
    void has_room();
    // All are hung up on; the next link begins with channel 1 again.
    void clear();

    std::size_t size() const { return clients_.size(); }

  private:
    struct Client {
        explicit Client(OwnedDescriptor socket) : fd(std::move(socket)) {}

        OwnedDescriptor fd;
        std::uint32_t events = 0;          // what the ready set is asked for
        std::string rest;                  // for it, what its socket has not taken yet, …
        std::size_t rest_sent = 0;         // … of which so much has gone
        std::size_t credit = kDoorWindow;  // of what it may send
        std::size_t window = kDoorWindow;  // of what may come for it
        std::size_t owed = 0;              // to be given back
        bool is_held = false;              // it is not read: the link has no room
        bool has_ended = false;            // the store hangs up, behind what is left
    };
    using Number = std::uint32_t;  // of the channel

    void arm();
    void serve_ready();
    void serve(Number number, std::uint32_t events);
    void receive(Number number, Client& client);
    bool take(const DoorFrame& frame);
    bool deliver(Number number, Client& client, std::string_view data);
    std::size_t send(Client& client, std::string_view data);
    void send_rest(Number number, Client& client);
    void give_back(Number number, Client& client, std::size_t taken);
    void ask_for_more(Number number, Client& client);
    void hang_up(Number number);
    void leave(Number number);

    DoorFrameSink& sink_;
    ReadySet ready_;
    bool armed_ = false;  // a wait for the ready set is under way
    std::unordered_map<Number, Client> clients_;
    std::vector<Number> held_;
    Number last_ = 0;
    DoorFrames frames_;
    std::unique_ptr<char[]> bytes_;  // kMaxDoorData, to read into
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace ddprun::inline job
