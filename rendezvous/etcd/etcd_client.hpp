// EtcdClient asks etcd's JSON gateway over HTTP or HTTPS, one connection for each request.
//
// The endpoint that answered last is asked first, then the others in their order. It is for coroutines on one
// executor; every wait is bounded. It throws nothing of the world's: an answer says what went wrong.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

class TlsContext;

struct EtcdAnswer {
    enum class Kind {
        good,     // `text` is the body
        refused,  // every endpoint says no, and will go on to do so; `text` says it in a line, with their own
                  // words,
        failed,   // … as it does here: this time it was in vain
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

    // Returns when a watch of the endpoint that answered last has news, or says nothing until the deadline or
    // for kWatchTimeout (these are good), or ends.
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

// EtcdRegister has a job's two keys in etcd, and this agent's leases of them: who hosts, and the newest
// recorded round.
//
// The round's key outlives the host's by far, so that a member of that round can lead the job from there. Who
// writes it binds it to a lease of its own; so one that finds it bound to that knows that nobody else has led
// the job since.
//
// It is used by the coroutine of the one EtcdElection that owns it. Every wait is bounded; where a function
// returns nothing, it was in vain, and cause() says why.

class EtcdRegister {
  public:
    using TimePoint = EtcdClient::TimePoint;

    // The round's key is there so many times as long as the host's when nobody keeps it.
    static constexpr int kRoundTtls = 3;
    static constexpr std::chrono::seconds kDropTimeout{2};

    // View has both keys, as they were read one after the other.
    struct View {
        KeyState host;
        KeyState round;
        std::optional<RoundRecord> record;  // what the latter says; nothing also if it is none of ours
    };

    EtcdRegister(const EtcdOptions& etcd, const std::string& run_id, std::chrono::milliseconds ttl);

    boost::asio::awaitable<std::optional<View>> look(TimePoint deadline);
    // Returns when one of them may have changed since; see EtcdClient::watch.
    boost::asio::awaitable<bool> await_change(const View& view, bool of_host, TimePoint deadline);

    // This agent hosts, unless a key has changed since that view. If a round was recorded, that is this
    // agent's then.
    boost::asio::awaitable<std::optional<bool>> take(const View& view, std::string host, TimePoint deadline);
    // Writes the host's key anew if it is this agent's still.
    boost::asio::awaitable<std::optional<bool>> write_host(std::string host, TimePoint deadline);
    // Records it if this agent hosts, and nobody else has recorded anything since; `anew`: nothing is
    // recorded.
    boost::asio::awaitable<std::optional<bool>> record(const RoundRecord& record, bool anew,
                                                       TimePoint deadline);
    // Keeps the leases, and tells whether the host's key is this agent's still.
    boost::asio::awaitable<std::optional<bool>> keep(TimePoint deadline);
    // Ends the leases, and the keys with them.
    boost::asio::awaitable<void> drop_host(TimePoint deadline);
    boost::asio::awaitable<void> drop_round(TimePoint deadline);

    bool is_own_host(const View& view) const { return host_lease_ && view.host.lease == host_lease_->id; }
    bool is_own_round(const View& view) const { return round_lease_ && view.round.lease == round_lease_->id; }
    // The round that is recorded is this agent's, as far as it knows.
    bool has_recorded() const { return has_recorded_; }

    // Gives the address by which the others reach this machine, as far as the way to etcd shows.
    std::string own_address() const;
    // So long is waited between two calls of keep().
    std::chrono::milliseconds keep_period() const;
    const std::string& host_key() const { return host_key_; }
    const std::string& cause() const { return cause_; }
    // Every endpoint says no, and will go on to do so.
    bool is_refused() const { return is_refused_; }

  private:
    template <class Value>
    std::optional<Value> read(const EtcdAnswer& answer, std::optional<Value> (*reader)(std::string_view));
    boost::asio::awaitable<bool> lease(std::optional<Lease>& lease, std::int64_t ttl_s, TimePoint deadline);
    boost::asio::awaitable<void> drop(std::optional<Lease>& lease, TimePoint deadline);
    std::int64_t round_ttl_s() const;

    std::string host_key_;
    std::string round_key_;
    std::chrono::milliseconds ttl_;
    EtcdClient client_;
    std::optional<Lease> host_lease_;
    std::optional<Lease> round_lease_;
    bool has_recorded_ = false;
    std::string cause_;
    bool is_refused_ = false;
};

}  // namespace job
}  // namespace ddprun
