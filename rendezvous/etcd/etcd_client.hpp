// EtcdClient asks etcd's JSON gateway over HTTP or HTTPS, one connection for each request.
//
// The endpoint that answered last is asked first, then the others in their order. It is for coroutines on one executor; every wait is bounded. It throws nothing of the world's: an answer says what went wrong.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

class TlsContext;

struct EtcdAnswer {
    enum class Kind {
        good,  // `text` is the body
        refused,  // every endpoint says no, and will go on to do so; `text` says it in a line, with their own words,
        failed,  // … as it does here: this time it was in vain
    };
    Kind kind = Kind::failed;
    std::string text;
};

class EtcdClient {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // One endpoint has so long, from the attempt to connect to the end of the answer.
    static constexpr std::chrono::milliseconds kRequestTimeout{3'000};
    // A watch that says nothing for so long is given up: what it watches is looked at again.
    static constexpr std::chrono::seconds kWatchTimeout{60};
    // An answer's body, or one message of a watch, has no more; ours are a hundredth of it.
    static constexpr std::size_t kMaxAnswerBytes = 64 * 1024;
    static constexpr std::size_t kMaxHeaderBytes = 16 * 1024;

    explicit EtcdClient(EtcdOptions options);
    ~EtcdClient();

    // No endpoint is waited for after the deadline.
    boost::asio::awaitable<EtcdAnswer> ask(EtcdRequest request, TimePoint deadline);

    // Returns when a watch of the endpoint that answered last has news, or says nothing until the deadline or for
    // kWatchTimeout (these are good), or ends.
    boost::asio::awaitable<EtcdAnswer> watch(EtcdRequest request, TimePoint deadline);

    // Gives the address of this machine that the last connection was made from; empty before the first.
    const std::string& local_address() const { return local_address_; }
    // Says whom it led to.
    const Endpoint& last_endpoint() const { return endpoints_[last_]; }

  private:
    boost::asio::awaitable<EtcdAnswer> ask_one(const Endpoint& endpoint, const EtcdRequest& request,
                                               std::chrono::milliseconds timeout);
    boost::asio::awaitable<EtcdAnswer> converse(const Endpoint& endpoint, const EtcdRequest& request,
                                                std::chrono::milliseconds connect_timeout, bool is_watch);
    boost::asio::awaitable<EtcdAnswer> converse_secretly(
        boost::asio::ip::tcp::socket socket, const Endpoint& endpoint, const EtcdRequest& request,
        std::chrono::steady_clock::time_point handshake_deadline, bool is_watch);

    std::vector<Endpoint> endpoints_;
    std::unique_ptr<TlsContext> tls_;  // null: plain HTTP
    std::size_t last_ = 0;
    std::string local_address_;
};

}  // namespace ddprun::inline job
