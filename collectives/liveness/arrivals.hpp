// Arrivals: which of the ranks that may dial this rank have done so, and their data connections that were not
// taken yet. Owned by a lifeline and under its lock; decides about nothing else.
#pragma once

#include <optional>
#include <vector>

#include "collectives/liveness/link_acceptor.hpp"
#include "collectives/wire/frame.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

class Arrivals {
  public:
    explicit Arrivals(const Membership& membership);

    // Says what a caller is answered; `proven`: it has the mesh's key.
    HelloAnswer judge(const LinkHello& hello, bool proven) const;
    // Takes in a connection that was welcomed. Returns the connection if it is the left neighbour's.
    std::optional<TcpLink> admit(LinkAcceptor::Accepted accepted);
    // Returns what Lifeline::take_data() does.
    std::optional<TcpLink> take_data(int peer, int lane);
    bool may_bring_data(int peer, int lane) const;
    bool has_left_neighbour() const { return left_neighbour_came_; }
    // Returns true if the caller means this communicator.
    bool is_meant(const LinkHello& hello) const {
        return hello.round == membership_.round && hello.communicator == membership_.communicator &&
               hello.nonce == membership_.nonce;
    }
    // Notes the callers that have still to prove that they are what their Hellos say (see LinkAcceptor);
    // those that mean other communicators are left out. Returns false if nothing has changed.
    bool note_proving(std::vector<LinkHello> proving);

  private:
    struct Arrived {
        TcpLink link;
        int lane = 0;
    };

    // Returns a connection's lane; messages by tag come on a lane behind those of data.
    int lane_of(const LinkHello& hello) const {
        return hello.channel == Channel::messages ? lanes_ : hello.lane;
    }
    // Returns where data_came_ counts the connection with this Hello.
    std::size_t data_index(const LinkHello& hello) const;

    const Membership& membership_;
    const int lanes_;
    bool left_neighbour_came_ = false;
    std::vector<bool> data_came_;
    std::vector<Arrived> data_;
    std::vector<LinkHello> proving_;
};

}  // namespace detail
}  // namespace ddprun
