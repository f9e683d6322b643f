// EtcdRegister has a job's two keys in etcd, and this agent's leases of them: which agent hosts, and the
// newest recorded round.
//
// The round's key outlives the host's by far: a member of that round can lead the job on from there. The
// agent that writes the round's key binds it to a lease of its own: as long as the key is bound to that
// lease, no other agent has led the job since.
//
// Used by the coroutine of the one EtcdElection that owns it. Every wait is bounded. A function that returns
// nothing has failed, and cause() says why.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/etcd/etcd_client.hpp"
#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/membership/quorum.hpp"

namespace ddprun {
inline namespace job {

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
