// Ranks as threads: the fast way to test what several ranks do together.
//
// Catch2's assertions are not for several threads at once: bodies report with expect(), which throws.
#pragma once

#include <functional>
#include <latch>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/wire/host_settings.hpp"

namespace ddprun {

// Runs body(0) … body(world_size - 1), each on a thread of its own; joins all; rethrows what was thrown
// first.
void run_ranks(int world_size, const std::function<void(int rank)>& body);

// The same with a communicator for each, met over a memory store and connected over loopback. No body runs
// before all have joined.
void run_communicators(int world_size, const std::function<void(Communicator&)>& body,
                       const CommunicatorOptions& options = {});

// The same for ranks that say they are on these hosts, one name for each rank.
void run_on_hosts(const std::vector<std::string>& hosts, const std::function<void(Communicator&)>& body,
                  const CommunicatorOptions& options = {}, int sockets_per_peer = kDefaultSocketsPerPeer);

// With an operation_timeout of a second, for who waits in vain.
CommunicatorOptions short_operations();

// Names for `hosts` hosts with `ranks` ranks on each: a a b b.
using Hosts = std::vector<std::string>;
Hosts host_names(int hosts, int ranks);
std::string text_of(const Hosts& hosts);

// Counts down once, when told or at the end, so that nobody waits for ever if an expectation fails.
class CountDown {
  public:
    explicit CountDown(std::latch& latch) : latch_(&latch) {}
    CountDown(const CountDown&) = delete;
    CountDown& operator=(const CountDown&) = delete;
    ~CountDown() { now(); }
    void now() {
        if (std::latch* latch = std::exchange(latch_, nullptr)) latch->count_down();
    }

  private:
    std::latch* latch_;
};

// Throws std::runtime_error with `what` unless the condition holds.
void expect(bool condition, const std::string& what);

// The CollectiveError that body() throws; throws itself if there is none.
CollectiveError expect_error(const std::function<void()>& body);

// The same, and it must have this code and exactly these culprits.
CollectiveError expect_error(CollectiveErrorCode code, const std::vector<int>& culprits,
                             const std::function<void()>& body);

}  // namespace ddprun
