// RingNeighbours: the connections to a rank's ring neighbours, by which notices come and go. Owned by a
// lifeline and under its lock; decides nothing.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

#include "collectives/liveness/lifeline_state.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

class RingNeighbours {
  public:
    RingNeighbours() = default;
    RingNeighbours(const RingNeighbours&) = delete;
    RingNeighbours& operator=(const RingNeighbours&) = delete;
    ~RingNeighbours();

    // Adds a neighbour, which is sent the notices of `first`.
    void add(TcpLink link, const std::vector<Notice>& first);
    void add_descriptors(std::vector<pollfd>& descriptors) const;
    // Reads what has come, and calls on_notice() for each notice, with its sender. Returns the neighbours
    // that have no connection any more.
    std::vector<int> hear(const std::function<void(const Notice&, int peer)>& on_notice);
    // Sends to all neighbours but `except`.
    void send(const Notice& notice, int except);
    bool empty() const { return neighbours_.empty(); }

  private:
    struct Neighbour {
        TcpLink link;
        NoticeReader reader;
    };

    static bool read_from(Neighbour& neighbour,
                          const std::function<void(const Notice&, int peer)>& on_notice);
    static void send(Neighbour& neighbour, const Notice& notice);

    std::vector<Neighbour> neighbours_;
};

}  // namespace detail
}  // namespace ddprun
