// EtcdClient asks etcd's JSON gateway over HTTP or HTTPS, one connection for each request.
//
// The endpoint that answered last is asked first, then the others in their order. Used by coroutines on one
// executor; every wait is bounded. EtcdClient throws nothing for failures of network or etcd: an EtcdAnswer
// says what went wrong.
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

namespace ddprun {
inline namespace job {

class TlsContext;

struct EtcdAnswer {
    enum class Kind {
        good,  // `text` is the body
        // refused: every endpoint refuses, and will keep refusing; `text` is one line with their own words.
        refused,
        failed,  // failed this time; `text` as above
    };
    Kind kind = Kind::failed;
    std::string text;
};

class EtcdClient {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // kRequestTimeout: how long one endpoint may take, from the attempt to connect to the end of the answer.
    static constexpr std::chrono::milliseconds kRequestTimeout{3'000};
    // kWatchTimeout: a watch that says nothing for this long is given up, and the key is read again.
    static constexpr std::chrono::seconds kWatchTimeout{60};
    // kMaxAnswerBytes: the limit of an answer's body, or of one message of a watch; ours are a hundredth of
    // it.
    static constexpr std::size_t kMaxAnswerBytes = 64 * 1024;
    static constexpr std::size_t kMaxHeaderBytes = 16 * 1024;

    explicit EtcdClient(EtcdOptions options);
    ~EtcdClient();

    // Asks the endpoints for an answer; none is waited for after the deadline.
    boost::asio::awaitable<EtcdAnswer> ask(EtcdRequest request, TimePoint deadline);

    // Watches at the endpoint that answered last. Returns a good answer when there is news, or when none has
    // come until the deadline or for kWatchTimeout. If the watch breaks off, returns an answer that is not
    // good.
    boost::asio::awaitable<EtcdAnswer> watch(EtcdRequest request, TimePoint deadline);

    // Returns the address of this machine that the last connection was made from; empty before the first.
    const std::string& local_address() const { return local_address_; }
    // Returns the endpoint that answered last.
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

}  // namespace job
}  // namespace ddprun
