// The job's port lets a caller say what he may by where the call comes from, and takes so many calls. Pure,
// but for the limit of open files, which is read when a ConnectionLimit is made.
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

// RefusedCallers bounds how often a RefusedCaller is told, however many call. Pure.
class RefusedCallers {
  public:
    using Clock = std::chrono::steady_clock;

    // So many sources, an address, a user and a reason, are told apart; all others are one more.
    static constexpr std::size_t kMostSources = 64;
    // Of each of them once in this time.
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
//                                 system does not tell whose it is: everything
//   the machine of a node that    everything: its workers use the store; where these go through doors: what
//                                 an agent or
//   is in the job's round         its door says
//   any other machine             what an agent says, to be admitted
//
// Owned by PortService, and by a node's door.
class CallerGate {
  public:
    enum class Pass { everything, agents_only, nothing };

    struct Caller {
        ConnectionOwner owner;
        boost::asio::ip::address address;
    };

    // So many different callers are told of that were turned away.
    static constexpr std::size_t kMaxTold = 8;

    explicit CallerGate(uid_t own) : own_(own) {}

    Pass judge(const Caller& caller) const;
    // Tells of a door that has proven itself whether its agent is in the round.
    bool lets_door_in(const Caller& caller) const;

    // The machines of a round's nodes, instead of those of the one before; or these as well.
    void begin_round(const std::vector<boost::asio::ip::address>& machines, bool through_doors);
    void admit(const std::vector<boost::asio::ip::address>& machines);

    // Tells the user, once, that nobody is kept out here.
    std::optional<std::string> tell_untold(const Caller& caller);
    struct TurnedAway {
        std::optional<std::string> sentence;  // for the user, once for each of them
        std::optional<RefusedCaller> event;
    };
    // `why`: an agent, or a door, was turned away for this reason; empty: the caller was not let pass.
    TurnedAway turn_away(const Caller& caller, const std::string& why, RefusedCallers::Clock::time_point now);

  private:
    uid_t own_;
    std::set<boost::asio::ip::address> machines_;
    bool through_doors_ = false;
    std::size_t told_ = 0;
    RefusedCallers refused_;
    bool is_untold_told_ = false;
};

// Gives the address as it stands in the sets above: an IPv4 one that came to an IPv6 socket is that one, and
// a scope is left out.
boost::asio::ip::address comparable(const boost::asio::ip::address& address);

// ConnectionLimit says how many connections the port may hold: what the process's limit of open files leaves
// beside the launcher's own descriptors and its workers', or a restart would find none left.
class ConnectionLimit {
  public:
    // It takes no more of all kinds at one time, whatever the limit of open files.
    static constexpr std::size_t kMaxConnections = 65'536;
    // It takes so many in any case: a job without its own agents is none.
    static constexpr std::size_t kLeastConnections = 64;

    // `spared` descriptors are for others.
    explicit ConnectionLimit(std::size_t spared);
    ConnectionLimit(std::size_t open_files, std::size_t spared);

    std::size_t most() const { return most_; }
    bool has_room(std::size_t open) const { return open < most_; }

    // Tells the user of this node what he should know when there is no room: the first time only.
    std::optional<std::string> tell_full();

  private:
    std::size_t open_files_;  // that the process may have
    std::size_t most_;
    bool is_told_ = false;
};

}  // namespace job
}  // namespace ddprun
