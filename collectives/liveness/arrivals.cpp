#include "collectives/liveness/arrivals.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
inline namespace detail {

Arrivals::Arrivals(const Membership& membership)
    : membership_(membership),
      lanes_(membership.lanes()),
      data_came_(membership.members.size() * static_cast<std::size_t>(lanes_ + 1)) {}

HelloAnswer Arrivals::judge(const LinkHello& hello, bool proven) const {
    if (hello.round != membership_.round) return HelloAnswer::other_round;
    if (hello.communicator != membership_.communicator) return HelloAnswer::other_communicator;
    if (hello.nonce != membership_.nonce) return HelloAnswer::other_job;
    const bool has_key = membership_.mesh_key.has_value();
    if (hello.challenge.has_value() != has_key)
        return has_key ? HelloAnswer::key_wanted : HelloAnswer::key_unknown;
    const bool known =
        hello.from >= 0 && hello.from < membership_.world_size() && hello.from != membership_.rank;
    if (hello.to != membership_.rank || !known) return HelloAnswer::other_rank;
    if (hello.channel == Channel::lifeline) {
        if (hello.from != membership_.left()) return HelloAnswer::other_rank;
        // A caller that has not proven the key does not hear either who has come already.
        if (has_key && !proven) return HelloAnswer::prove;
        return left_neighbour_came_ ? HelloAnswer::repeated : HelloAnswer::welcome;
    }
    if (hello.lane >= (hello.channel == Channel::data ? lanes_ : 1)) return HelloAnswer::other_lane;
    if (has_key && !proven) return HelloAnswer::prove;
    return data_came_[data_index(hello)] ? HelloAnswer::repeated : HelloAnswer::welcome;
}

std::size_t Arrivals::data_index(const LinkHello& hello) const {
    return static_cast<std::size_t>(hello.from) * static_cast<std::size_t>(lanes_ + 1) +
           static_cast<std::size_t>(lane_of(hello));
}

std::optional<TcpLink> Arrivals::admit(LinkAcceptor::Accepted accepted) {
    // Two of a kind can be judged in one turn of the acceptor; the second is dropped here.
    if (accepted.hello.channel == Channel::lifeline) {
        if (std::exchange(left_neighbour_came_, true)) return std::nullopt;
        return std::move(accepted.link);
    }
    const std::size_t index = data_index(accepted.hello);
    if (!data_came_[index]) data_.push_back({std::move(accepted.link), lane_of(accepted.hello)});
    data_came_[index] = true;
    return std::nullopt;
}

std::optional<TcpLink> Arrivals::take_data(int peer, int lane) {
    const auto found = std::find_if(data_.begin(), data_.end(), [&](const Arrived& arrived) {
        return arrived.link.peer() == peer && arrived.lane == lane;
    });
    if (found == data_.end()) return std::nullopt;
    TcpLink link = std::move(found->link);
    data_.erase(found);
    return link;
}

bool Arrivals::may_bring_data(int peer, int lane) const {
    return std::any_of(proving_.begin(), proving_.end(), [&](const LinkHello& hello) {
        return hello.channel != Channel::lifeline && hello.from == peer && lane_of(hello) == lane;
    });
}

bool Arrivals::note_proving(std::vector<LinkHello> proving) {
    std::erase_if(proving, [this](const LinkHello& hello) { return !is_meant(hello); });
    if (proving == proving_) return false;
    proving_ = std::move(proving);
    return true;
}

}  // namespace detail
}  // namespace ddprun
