// What carries the stand-in's data between ranks, in one process or several: a hub in the process that made
// the unique id passes messages on; each rank has one connection to it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddprun {
namespace standin {

using Bytes = std::vector<std::byte>;

// Opens a hub; returns its name. It ends when all ranks that ever came have gone.
std::string open_hub();

// A rank's connection. Never destroyed: its thread, and what is in streams, may still use it.
class HubLink {
  public:
    // Throws std::runtime_error if the hub is not there. `lost` is called, by a thread, when a peer has gone.
    HubLink(const std::string& name, int rank, int ranks, std::function<void()> lost);
    HubLink(const HubLink&) = delete;
    HubLink& operator=(const HubLink&) = delete;
    ~HubLink() = delete;

    // Waits until every rank has come; until every rank has called say_final(). False: stop() was called, or
    // a rank has gone without that.
    bool wait_until_complete();
    void say_final();
    bool wait_until_all_final();
    void send(int peer, const void* data, std::size_t bytes);
    // The peer's next message; nothing when stop() was called.
    std::optional<Bytes> recv(int peer);
    void stop();

  private:
    void run();

    int fd_;
    std::function<void()> lost_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<int, std::deque<Bytes>> inbox_;
    bool complete_ = false;
    bool all_final_ = false;
    bool peer_gone_ = false;
    bool stopped_ = false;
    std::mutex send_mutex_;
};

}  // namespace standin
}  // namespace ddprun
