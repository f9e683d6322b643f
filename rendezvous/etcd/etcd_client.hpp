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

// EtcdRegister has a job's two keys in etcd, and this agent's leases of them: which agent hosts, and the
// newest recorded round.
//
// The round's key outlives the host's by far: a member of that round can lead the job on from there. The
// agent that writes the round's key binds it to a lease of its own: as long as the key is bound to that
// lease, no other agent has led the job since.
//
// Used by the coroutine of the one EtcdElection that owns it. Every wait is bounded. A function that returns
// nothing has failed, and cause() says why.
class EtcdRegister {
  public:
    using TimePoint = EtcdClient::TimePoint;

    // kRoundTtls: how many times as long as the host's key the round's key stays when no agent keeps it.
    static constexpr int kRoundTtls = 3;
    static constexpr std::chrono::seconds kDropTimeout{2};

    // View has both keys, as they were read one after the other.
    struct View {
        KeyState host;
        KeyState round;
        std::optional<RoundRecord> record;  // what `round` says; nothing also if ddprun has not written it
    };

    EtcdRegister(const EtcdOptions& etcd, const std::string& run_id, std::chrono::milliseconds ttl);

    boost::asio::awaitable<std::optional<View>> look(TimePoint deadline);
    // Returns when one of the keys may have changed since `view`; see EtcdClient::watch.
    boost::asio::awaitable<bool> await_change(const View& view, bool of_host, TimePoint deadline);

    // Takes the host's key, and that of the round if one was recorded, for this agent; false if a key has
    // changed since `view`.
    boost::asio::awaitable<std::optional<bool>> take(const View& view, std::string host, TimePoint deadline);
    // Writes the host's key anew; false if the key is no longer this agent's.
    boost::asio::awaitable<std::optional<bool>> write_host(std::string host, TimePoint deadline);
    // Records the round if this agent hosts, and no other agent has written the round's key since this one
    // did; else false. `anew`: there must be no such key yet.
    boost::asio::awaitable<std::optional<bool>> record(const RoundRecord& record, bool anew,
                                                       TimePoint deadline);
    // Keeps the leases, and tells whether the host's key is this agent's still.
    boost::asio::awaitable<std::optional<bool>> keep(TimePoint deadline);
    // drop_host() and drop_round() end the leases, and the keys with them.
    boost::asio::awaitable<void> drop_host(TimePoint deadline);
    boost::asio::awaitable<void> drop_round(TimePoint deadline);

    bool is_own_host(const View& view) const { return host_lease_ && view.host.lease == host_lease_->id; }
    bool is_own_round(const View& view) const { return round_lease_ && view.round.lease == round_lease_->id; }
    // Says whether the recorded round is this agent's, as far as it knows.
    bool has_recorded() const { return has_recorded_; }

    // Returns the address by which the others reach this machine, as far as the way to etcd shows.
    std::string own_address() const;
    // Returns the pause between two calls of keep().
    std::chrono::milliseconds keep_period() const;
    const std::string& host_key() const { return host_key_; }
    const std::string& cause() const { return cause_; }
    // Says whether every endpoint refuses, and will keep refusing.
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
