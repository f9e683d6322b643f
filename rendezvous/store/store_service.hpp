// StoreService: serves the store to TCP connections. The Asio shell around StoreState.
//
// The owner accepts connections (a StoreHost, or the coordinator's port after it has seen a store client's
// first byte) and co_spawns serve() for each. Everything, the destructor included, happens on the one thread
// that runs the executor. A peer that is slow, half-open, silent or hostile costs bounded memory and never
// holds up another: nothing here blocks, and every connection is read only while its replies are being taken.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/store/store_pipe.hpp"
#include "rendezvous/store/store_terms.hpp"

namespace ddprun::inline base {

class StoreHub;

class StoreService {
  public:
    static constexpr ConnectionId kNoConnection = kNoStoreConnection;
    using Remark = StoreRemark;

    explicit StoreService(boost::asio::any_io_executor executor, const StoreLimits& limits = {},
                          Remark on_remark = {});
    // Closes every connection; their serve() ends by itself when the executor runs on.
    ~StoreService();
    StoreService(const StoreService&) = delete;
    StoreService& operator=(const StoreService&) = delete;

    // Serves one connection until it is over. `first_bytes` have been read from the socket already, perhaps
    // none. Never throws for what a peer does. May outlive the service.
    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket, std::string first_bytes);

    // A client that has no socket of its own; its number, or kNoConnection if there are too many. A pipe must take the same
    // care as a socket: not more is fed than was served, beside a window of its own.
    ConnectionId attach(std::shared_ptr<StorePipe> pipe);
    void feed(ConnectionId client, std::string_view bytes);
    // The pipe has room again.
    void resume(ConnectionId client);
    // It has sent its last: its conversation ends when that is served.
    void finish(ConnectionId client);
    // It is gone; its pipe hears nothing more. As for the others, it may have ended already.
    void detach(ConnectionId client);

    // Makes the store empty for a new round: every key is forgotten and every connection closed, so that no
    // straggler of the old round can read or write in the new one. Call it when the old workers are dead and
    // before new ones can connect.
    void clear();

    using Counters = StoreCounters;
    Counters counters() const;

  private:
    static boost::asio::awaitable<void> serve_connection(std::shared_ptr<StoreHub> hub,
                                                         boost::asio::ip::tcp::socket socket,
                                                         std::string first_bytes);

    std::shared_ptr<StoreHub> hub_;
};

}  // namespace ddprun::inline base
