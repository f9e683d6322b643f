// CallerGate: who may say what at the job's port, by where the call comes from. Pure.
//
//   a process of this machine     of our own user, or root: everything; of another user: nothing; where the system
//                                 does not tell whose it is: everything
//   the machine of a node that    everything: its workers use the store; where these go through doors: what an agent or
//   is in the job's round         its door says
//   any other machine             what an agent says, to be admitted
//
// Owned by PortService.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/net/socket_owner.hpp"

namespace ddprun::inline job {

class CallerGate {
  public:
    enum class Pass { everything, agents_only, nothing };

    struct Caller {
        ConnectionOwner owner;
        boost::asio::ip::address address;
    };

    // Different callers whose turning away is told.
    static constexpr std::size_t kMaxTold = 8;

    explicit CallerGate(uid_t own) : own_(own) {}

    Pass judge(const Caller& caller) const;
    // Of a door that has proven itself: whether its agent is in the round.
    bool lets_door_in(const Caller& caller) const;

    // The machines of a round's nodes, instead of those of the one before; or these as well.
    void begin_round(const std::vector<boost::asio::ip::address>& machines, bool through_doors);
    void admit(const std::vector<boost::asio::ip::address>& machines);

    // For the user, once: that nobody is kept out here.
    std::optional<std::string> tell_untold(const Caller& caller);
    // For the user, once for each of them: what was not let pass, and why.
    std::optional<std::string> tell_turned_away(const Caller& caller);
    // Likewise, of an agent, for this reason.
    std::optional<std::string> tell_turned_away(const Caller& caller, const std::string& why);

  private:
    std::optional<std::string> tell_once(const std::string& text);

    uid_t own_;
    std::set<boost::asio::ip::address> machines_;
    bool through_doors_ = false;
    std::set<std::string> told_;
    bool is_untold_told_ = false;
};

// As it stands in the sets above: an IPv4 address that came to an IPv6 socket is that address, and a scope is left out.
boost::asio::ip::address comparable(const boost::asio::ip::address& address);

}  // namespace ddprun::inline job
