// EtcdElection lets the agents of a job find out by etcd which of them hosts its coordinator.
//
// They race for one key, which is bound to a lease of the winner. The winner publishes where it hosts, as the key's value,
// and keeps the lease; the others read it there. Where the key goes before they have reached the host, they race again.
// A host whose lease has run out (etcd was away, or this process stood still) writes its key anew; where another agent
// was first, it is told of that one by on_host.
//
// Where rounds are recorded (quorum.hpp) the members of the last one claim the key when its host is lost:
// at once where that is known to be dead, else when its lease is over. Everybody else leaves the key to them, as long as
// there is a record. Which event means what is election_table.hpp's.
//
// Created, driven and destroyed on the thread of `executor`; events come from there and never from inside a call of the
// election's own functions. Every wait on etcd is bounded.
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

namespace ddprun::inline job {

struct ElectionEvents {
    // This agent is to host: at the port of the options, and at the address by which the others reach this machine.
    // That is the one that its last connection to etcd came from; one of loopback only where etcd was asked for by such
    // a one. publish() when it does.
    std::function<void(const Endpoint& here)> on_elected;
    // It is to host as the one that leads the job from the round that claim() was told of. publish() when it does.
    std::function<void()> on_claimed;
    // Another one hosts, here; told once until that changes, or campaign() or claim() is called again.
    std::function<void(const Endpoint& host)> on_host;
    // An attempt failed, for this cause; the next follows by itself. In a line, with the words of whatever answered.
    std::function<void(const std::string& cause)> on_trouble;
    // There is no host for this agent that looks for one; nothing more is tried until campaign() or claim() is called
    // again. A whole sentence.
    std::function<void(const std::string& why)> on_failed;
    // Tells what has come of record().
    std::function<void(const RecordNews&)> on_record;
};

struct ElectionOptions {
    EtcdOptions etcd;
    HostRecord record;       // what the key will say of this agent, all but the endpoint
    std::uint16_t port = 0;  // where it would host; 0: any
    // The key outlives a host that is gone by so long; etcd may make it longer.
    std::chrono::milliseconds lease_ttl{5'000};
    std::chrono::milliseconds join_timeout{900'000};  // as errors name it
};

class EtcdElection {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr std::chrono::milliseconds kFirstPause{100};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // One owner holds it. Nothing is reported any more when that lets it go.
    static std::shared_ptr<EtcdElection> make(const boost::asio::any_io_executor& executor,
                                              ElectionOptions options, ElectionEvents events);
    virtual ~EtcdElection() = default;

    // Finds the host, or becomes it; fails at the deadline. Again after the host was lost.
    virtual void campaign(TimePoint deadline) = 0;

    // The host was lost: finds the next one, or becomes it; fails at the deadline. `dead`: members who are known to be.
    virtual void claim(const MemberList& last, const std::vector<int>& dead, TimePoint deadline) = 0;

    // The elected agent says what is to be recorded, from now on. Nothing: nothing is to be left of the job.
    virtual void record(const std::optional<RecordWish>& wish) = 0;

    // The elected agent says where it hosts.
    virtual void publish(const Endpoint& host) = 0;

    // The host was reached, and answers: nobody else is looked for.
    virtual void settle() = 0;

    // This agent does not host after all: another one may.
    virtual void release() = 0;

    // The job is over: the keys and their leases are ended, but that of the round stays where record() was told of one.
    // `done` is called when they are, or after EtcdRegister::kDropTimeout, since a lease that is not kept ends by itself. May be
    // called again, to be told of the end.
    virtual void withdraw(std::function<void()> done) = 0;
};

}  // namespace ddprun::inline job
