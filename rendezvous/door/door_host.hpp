// DoorHost is node 0's end of one agent's door: each channel is a client of the store.
//
// Owned by PortService, on its thread; the store outlives it.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/door/door_frames.hpp"
#include "rendezvous/door/sealed_link.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/store/store_service.hpp"

namespace ddprun {
inline namespace job {

class DoorHost {
  public:
    // DoorHost takes over the connection. `heard` is what the door has said already. `on_over` is
    // SealedLinkEvents::on_over; this object may be destroyed in it.
    DoorHost(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
             StoreService& store, std::function<void(std::string_view why)> on_over);
    // Ends all clients of the door.
    ~DoorHost();
    DoorHost(const DoorHost&) = delete;
    DoorHost& operator=(const DoorHost&) = delete;

  private:
    class Channel;

    bool take(const DoorFrame& frame);
    bool open(std::uint32_t number);
    void has_room();

    StoreService& store_;
    std::shared_ptr<SealedLink> link_;
    DoorFrames frames_;
    std::unordered_map<std::uint32_t, std::shared_ptr<Channel>> channels_;
    std::vector<std::uint32_t> waiting_;  // channels with replies that wait for room in the link
    std::uint32_t last_channel_ = 0;
    std::function<void(std::string_view)> on_over_;
};

}  // namespace job
}  // namespace ddprun
