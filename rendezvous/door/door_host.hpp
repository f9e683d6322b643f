// DoorHost is node 0's end of what one agent's door has to say: each channel is a client of the store.
//
// Owned by PortService, on its thread; the store outlives it.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/door/door_link.hpp"
#include "rendezvous/store/store_service.hpp"

namespace ddprun::inline job {

class DoorHost {
  public:
    // `heard`: what the door has said already. on_over: the link is; the last call, in which this object may be destroyed.
    DoorHost(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
             StoreService& store, std::function<void()> on_over);
    // All its clients are gone.
    ~DoorHost();
    DoorHost(const DoorHost&) = delete;
    DoorHost& operator=(const DoorHost&) = delete;

  private:
    class Channel;

    bool take(std::string_view plain);
    bool take(const DoorFrame& frame);
    bool open(std::uint32_t number);
    void has_room();

    StoreService& store_;
    std::shared_ptr<SealedLink> link_;
    DoorFrames frames_;
    std::unordered_map<std::uint32_t, std::shared_ptr<Channel>> channels_;
    std::vector<std::uint32_t> waiting_;  // channels whose clients' replies wait for room in the link
    std::uint32_t last_channel_ = 0;
    std::function<void()> on_over_;
};

}  // namespace ddprun::inline job
