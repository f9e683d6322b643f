// StoreHost is a store of one's own: a StoreService with its listening socket and its thread. Connections of
// other users of this machine are closed at once; root's are not.
//
// A process makes one if it must host the store itself: rank 0 when no launcher does, and tests. The owner
// calls the constructor, the destructor and port() from any one thread; clients may connect when the
// constructor is back. The destructor ends every connection and joins the thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <thread>

#include "rendezvous/net/listen.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/store/store_service.hpp"

namespace ddprun {
inline namespace base {

class StoreHost {
  public:
    // Starts to listen; port 0 takes a free one. Throws as listen_tcp does.
    StoreHost(ListenScope scope, std::uint16_t port, const StoreLimits& limits = {});
    ~StoreHost();
    StoreHost(const StoreHost&) = delete;
    StoreHost& operator=(const StoreHost&) = delete;

    std::uint16_t port() const { return port_; }

    // Returns the counters, after a question to the serving thread.
    StoreService::Counters counters() const;
    // Empties the store (StoreService::clear()) before it returns.
    void clear();

  private:
    boost::asio::awaitable<void> accept();

    mutable boost::asio::io_context context_{1};
    std::shared_ptr<StoreService> service_;
    boost::asio::ip::tcp::acceptor acceptor_;
    std::uint16_t port_;
    ConnectionOwners owners_;  // used by the serving thread
    std::thread thread_;
};

}  // namespace base
}  // namespace ddprun
