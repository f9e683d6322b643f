// PortSearch calls, or hosts, where PortWalk says. Owned and used by RendezvousLink, on the agent's thread,
// as long as the agent has not been in a round.
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

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/coordinator_client.hpp"
#include "rendezvous/link/host_claim.hpp"
#include "rendezvous/link/link_observer.hpp"
#include "rendezvous/link/port_walk.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun {
inline namespace job {

struct PortSearchOptions {
    Endpoint first;  // and the next ports
    int ports = 1;
    std::optional<PortRange> range;  // of which they are, as the user gave it
    // has_claim_to_host: hosts without asking whether another agent of this job does so on this machine.
    bool has_claim_to_host = false;
    Hello hello;
    CoordinatorClient::TimePoint deadline;
};

struct PortSearchEvents {
    // call: call there, with a client of its own; what comes of it is told to the search.
    std::function<void(const CoordinatorClientOptions& options)> call;
    // drop: the job is not at that port; end that call.
    std::function<void()> drop;
    // observer is told of trouble after each round, and of the loss when the deadline has passed without a
    // coordinator.
    LinkObserver& observer;
};

class PortSearch {
  public:
    // kCallTimeout: for one call to where nothing answers.
    static constexpr std::chrono::milliseconds kCallTimeout{1'000};
    // kAnswerTime: how much longer than Roster::kFirstStatusDelay the coordinator's first word may take.
    static constexpr std::chrono::milliseconds kAnswerTime{2'000};

    PortSearch(const boost::asio::any_io_executor& executor, PortSearchOptions options,
               PortSearchEvents events);

    // Returns where the job may be. place(): where it was found or looked for last.
    std::vector<Endpoint> places() const;
    Endpoint place() const { return at(walk_.port()); }

    // Calls `host` with one place after the other until its port is free. `host` throws address_in_use where
    // it is not, and at the last one so does this function. Calls nothing if another agent on this machine
    // hosts.
    void host(const std::function<void(const Endpoint&)>& host,
              const std::function<void(const std::string&)>& on_step);

    void call_next();

    // Returns whether a trouble, a loss or a message concerned the search only.
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
    bool is_heard_ = false;   // the last call has met this job
    bool is_passed_ = false;  // that call is of no interest any more
    bool has_ended_ = false;
    std::shared_ptr<int> life_ = std::make_shared<int>(0);
};

}  // namespace job
}  // namespace ddprun
