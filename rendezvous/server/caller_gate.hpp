// CallerGate decides what a caller may say at the job's port by where the call comes from; ConnectionLimit,
// how many calls the port takes. Pure, but for the limit of open files, which is read when a ConnectionLimit
// is made.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/server/refused_caller.hpp"

namespace ddprun {
inline namespace job {

// RefusedCallers bounds how often a RefusedCaller is told, however many callers there are. Pure.
class RefusedCallers {
  public:
    using Clock = std::chrono::steady_clock;

    // kMostSources: how many sources (an address, a user and a reason) are told apart; all further ones count
    // as one.
    static constexpr std::size_t kMostSources = 64;
    // kPause: each source is told of once in this time.
    static constexpr std::chrono::minutes kPause{1};

    std::optional<RefusedCaller> add(RefusedCaller caller, Clock::time_point now);

  private:
    struct Source {
        std::optional<Clock::time_point> told;
        int calls = 0;
    };
    std::map<std::tuple<std::string, std::int64_t, std::string>, Source> sources_;
};

// CallerGate judges a call by where it comes from:
//
//   a process of this machine     of our own user, or root: everything; of another user: nothing; where the
//                                 system does not tell its user: everything
//   the machine of a node that    everything: its workers use the store; where these go through doors: what
//   is in the job's round         an agent or its door says
//   any other machine             what an agent says, to be admitted
//
// PortService owns one, and so does a node's door.
class CallerGate {
  public:
    enum class Pass { everything, agents_only, nothing };

    struct Caller {
        ConnectionOwner owner;
        boost::asio::ip::address address;
    };

    // kMaxTold: how many different callers that were turned away are told of.
    static constexpr std::size_t kMaxTold = 8;

    explicit CallerGate(uid_t own) : own_(own) {}

    Pass judge(const Caller& caller) const;
    // Returns whether the agent of a door, which has proven itself, is in the round.
    bool lets_door_in(const Caller& caller) const;

    // Lets in the machines of a round's nodes instead of those of the one before; admit() adds more.
    void begin_round(const std::vector<boost::asio::ip::address>& machines, bool through_doors);
    void admit(const std::vector<boost::asio::ip::address>& machines);

    // Returns, once, the sentence for the user that no caller is kept out here.
    std::optional<std::string> tell_untold(const Caller& caller);
    struct TurnedAway {
        std::optional<std::string> sentence;  // for the user, once for each caller
        std::optional<RefusedCaller> event;
    };
    // Notes a caller that was turned away. `why`: the reason, for an agent or a door; empty: this gate did
    // not let the caller pass.
    TurnedAway turn_away(const Caller& caller, const std::string& why, RefusedCallers::Clock::time_point now);

  private:
    uid_t own_;
    std::set<boost::asio::ip::address> machines_;
    bool through_doors_ = false;
    std::size_t told_ = 0;
    RefusedCallers refused_;
    bool is_untold_told_ = false;
};

// Returns the address as it stands in the sets above: an IPv4 one that came to an IPv6 socket as IPv4, and no
// scope.
boost::asio::ip::address comparable(const boost::asio::ip::address& address);

// ConnectionLimit: how many connections the port may hold. The process's limit of open files must leave room
// beside them for the launcher's own descriptors and its workers', or a restart would find none left.
class ConnectionLimit {
  public:
    // kMaxConnections: connections of all kinds at one time at most, whatever the limit of open files.
    static constexpr std::size_t kMaxConnections = 65'536;
    // kLeastConnections: connections that are taken in any case, since a job needs those of its own agents.
    static constexpr std::size_t kLeastConnections = 64;

    // ConnectionLimit leaves `spared` descriptors to others.
    explicit ConnectionLimit(std::size_t spared);
    ConnectionLimit(std::size_t open_files, std::size_t spared);

    std::size_t most() const { return most_; }
    bool has_room(std::size_t open) const { return open < most_; }

    // Returns what the user of this node should know when there is no room: the first time only.
    std::optional<std::string> tell_full();

  private:
    std::size_t open_files_;  // that the process may have
    std::size_t most_;
    bool is_told_ = false;
};

}  // namespace job
}  // namespace ddprun
