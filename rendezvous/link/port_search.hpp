// An agent finds its job's coordinator at one of several ports, or takes one of them for it: a job whose user asked for no port
// by number is at the first one that was free on its host.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline job {

// PortWalk says at which port an agent looks next, and what it has met. Each port gets a call; where another job is, or
// another program, or nobody, the next one is called, round and round, with a growing pause before each round. Pure.
class PortWalk {
  public:
    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // `count` is one at least.
    PortWalk(std::uint16_t first, int count) : first_(first), met_(static_cast<std::size_t>(count)) {}

    std::uint16_t port() const { return static_cast<std::uint16_t>(first_ + next_); }
    std::vector<std::uint16_t> ports() const;

    // Nobody takes calls at port(), for this cause; or somebody does, and is `what` ("belongs to another job").
    void pass_nobody(const std::string& cause);
    void pass_stranger(const std::string& what);

    // Tells whether every port was called since the round began.
    bool has_ended_round() const { return next_ == 0; }
    std::chrono::milliseconds pause() const;

    // Says in one line where the job was not found.
    std::string text() const;

  private:
    void pass();

    std::uint16_t first_;
    std::size_t next_ = 0;
    std::chrono::milliseconds pause_{0};  // before the next round
    std::vector<std::string> met_;        // by port; empty: nobody, when it was called last
    std::string cause_;                   // of the last port where nobody is
};

// HostClaim is had by one of the agents of a job on a machine at most, which hosts the coordinator where its port is not known
// beforehand; the kernel takes it back when that agent ends. It is taken in the network namespace, where ports are, too.
class HostClaim {
  public:
    // False: another agent has it.
    bool take(const std::string& run_id);

  private:
    OwnedDescriptor holder_;
};

struct PortSearchOptions {
    Endpoint first;  // and the next ports
    int ports = 1;
    std::optional<PortRange> range;  // of which they are, as the user gave it
    // It hosts without asking whether another agent of this job does so on this machine.
    bool has_claim_to_host = false;
    Hello hello;
    CoordinatorClient::TimePoint deadline;
};

struct PortSearchEvents {
    // Call there, with a client of its own; what comes of it is told to the search.
    std::function<void(const CoordinatorClientOptions& options)> call;
    // The job is not at that port: end that call.
    std::function<void()> drop;
    // Trouble is reported after each round, and that the coordinator was not reached when the deadline has passed.
    CoordinatorClientEvents client;
};

// PortSearch calls, or hosts, where PortWalk says. Owned and used by RendezvousLink, on the agent's thread, as long as the agent
// has not been in a round.
class PortSearch {
  public:
    // One call to where nobody answers.
    static constexpr std::chrono::milliseconds kCallTimeout{1'000};
    // A coordinator without heartbeats says its first word after a while; this is how much longer it may take.
    static constexpr std::chrono::milliseconds kAnswerTime{2'000};

    PortSearch(const boost::asio::any_io_executor& executor, PortSearchOptions options,
               PortSearchEvents events);

    // Gives where the job may be, and where it was found or looked for last.
    std::vector<Endpoint> places() const;
    Endpoint place() const { return at(walk_.port()); }

    // Calls `host` with one place after the other until its port is free (it throws address_in_use where it is not; so does
    // this at the last one). Not if another agent on this machine hosts.
    void host(const std::function<void(const Endpoint&)>& host,
              const std::function<void(const std::string&)>& on_step);

    void call_next();

    // Tells of trouble, a loss or a message whether it concerned the search only.
    bool takes_trouble(const std::string& cause);
    bool takes(const CoordinatorLoss& loss);
    bool takes(const ControlMessage& message);

    void end();
    bool has_ended() const { return has_ended_; }

  private:
    Endpoint at(std::uint16_t port) const { return {options_.first.host, port}; }
    void pass();
    [[noreturn]] void fail_all_taken(const std::string& last) const;

    boost::asio::steady_timer pause_;
    PortSearchOptions options_;
    HostClaim claim_;
    PortWalk walk_;
    PortSearchEvents events_;
    bool is_heard_ = false;   // somebody of this job, by the last call
    bool is_passed_ = false;  // that call is of no interest any more
    bool has_ended_ = false;
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace ddprun::inline job
