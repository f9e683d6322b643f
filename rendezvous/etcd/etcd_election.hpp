// EtcdElection lets the agents of a job find out by etcd which of them hosts its coordinator.
//
// The agents race for one key, which is bound to a lease of the winner. The winner publishes where it hosts,
// as the key's value, and keeps the lease; the others read it there. If the key goes before they have reached
// the host, they race again. A host that has lost its lease (etcd was away, or the process stood still)
// writes its key anew; if another agent was first, on_host tells of that one.
//
// Where rounds are recorded (quorum.hpp), the members of the last one claim the key when its host is lost: at
// once where that is known to be dead, else when its lease is over. All other agents leave the key to them,
// as long as there is a record. What each event means stands in the table.
//
// Created, driven and destroyed on the thread of `executor`; events come from there and never from inside a
// call of the election's own functions. Every wait on etcd is bounded.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/membership/quorum.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

struct ElectionEvents {
    // on_elected: this agent is to host, at the port of the options and at `here`, where the others reach
    // this machine. The address is the one that its last connection to etcd came from; a loopback address
    // only where etcd itself is named by one. Call publish() when it hosts.
    std::function<void(const Endpoint& here)> on_elected;
    // on_claimed: this agent is to host, and to lead the job from the round that claim() was told of. Call
    // publish() when it hosts.
    std::function<void()> on_claimed;
    // on_host: another agent hosts at `host`; told once until that changes, or campaign() or claim() is
    // called again.
    std::function<void(const Endpoint& host)> on_host;
    // on_trouble: an attempt failed for this cause, a line with the words of whatever answered; the next
    // follows by itself.
    std::function<void(const std::string& cause)> on_trouble;
    // on_failed: this agent finds no host; nothing more is tried until campaign() or claim() is called again.
    // `why` is a whole sentence.
    std::function<void(const std::string& why)> on_failed;
    // on_record tells what has come of record().
    std::function<void(const RecordNews&)> on_record;
};

struct ElectionOptions {
    EtcdOptions etcd;
    HostRecord record;       // what the key will say of this agent; publish() adds the endpoint
    std::uint16_t port = 0;  // where it would host; 0: any
    // lease_ttl: how long the key outlives a host that is gone; etcd may make it longer.
    std::chrono::milliseconds lease_ttl{5'000};
    std::chrono::milliseconds join_timeout = kDefaultJoinTimeout;  // as errors name it
};

class EtcdElection {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr std::chrono::milliseconds kFirstPause{100};
    // kFreeLooks: how many looks at the keys follow each other at once before there are pauses.
    static constexpr int kFreeLooks = 8;
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // Makes an election for one owner; nothing is reported once the owner has let it go.
    static std::shared_ptr<EtcdElection> make(const boost::asio::any_io_executor& executor,
                                              ElectionOptions options, ElectionEvents events);
    virtual ~EtcdElection() = default;

    // Finds the host, or becomes it; fails at the deadline. Called again after the host was lost.
    virtual void campaign(TimePoint deadline) = 0;

    // Finds the next host, or becomes it, after the host was lost; fails at the deadline. `dead`: group ranks
    // in `last` that are known to be dead.
    virtual void claim(const MemberList& last, const std::vector<int>& dead, TimePoint deadline) = 0;

    // Tells what the elected agent wants recorded from now on; nothing: no record of the job is to be left.
    virtual void record(const std::optional<RecordWish>& wish) = 0;

    // Tells where the elected agent hosts.
    virtual void publish(const Endpoint& host) = 0;

    // Tells that the host was reached and answers: no other host is looked for.
    virtual void settle() = 0;

    // Tells that this agent does not host after all: another one may.
    virtual void release() = 0;

    // Ends the host's key and, unless record() was given a wish, the round's, with their leases. `done` is
    // called when that is done, or after EtcdRegister::kDropTimeout, since a lease that is not kept ends by
    // itself. May be called again with another `done`.
    virtual void withdraw(std::function<void()> done) = 0;
};

}  // namespace job
}  // namespace ddprun
