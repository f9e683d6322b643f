#include "collectives/liveness/ring_neighbours.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "collectives/wire/frame.hpp"

namespace ddprun {
inline namespace detail {

RingNeighbours::~RingNeighbours() {
    // Neighbours that end at once wait for each other.
    for (Neighbour& neighbour : neighbours_) neighbour.link.write_no_more();
    for (Neighbour& neighbour : neighbours_) neighbour.link.await_arrival();
}

void RingNeighbours::add(TcpLink link, const std::vector<Notice>& first) {
    neighbours_.push_back({std::move(link), {}});
    for (const Notice& notice : first) send(neighbours_.back(), notice);
}

void RingNeighbours::add_descriptors(std::vector<pollfd>& descriptors) const {
    for (const Neighbour& neighbour : neighbours_)
        descriptors.push_back({neighbour.link.descriptor(), POLLIN, 0});
}

std::vector<int> RingNeighbours::hear(const std::function<void(const Notice&, int peer)>& on_notice) {
    std::vector<int> lost;
    std::erase_if(neighbours_, [&](Neighbour& neighbour) {
        if (read_from(neighbour, on_notice)) return false;
        lost.push_back(neighbour.link.peer());
        return true;
    });
    return lost;
}

// False when the connection is over.
bool RingNeighbours::read_from(Neighbour& neighbour,
                               const std::function<void(const Notice&, int peer)>& on_notice) {
    std::array<std::byte, 4096> buffer;
    try {
        iovec part{buffer.data(), buffer.size()};
        while (const std::size_t count = neighbour.link.read_some({&part, 1})) {
            neighbour.reader.add(std::span(buffer).first(count));
            while (const auto notice = neighbour.reader.next()) on_notice(*notice, neighbour.link.peer());
            if (neighbour.reader.broken()) return false;
        }
    } catch (const LinkLost&) {
        return false;
    }
    return true;
}

void RingNeighbours::send(const Notice& notice, int except) {
    for (Neighbour& neighbour : neighbours_) {
        if (neighbour.link.peer() != except) send(neighbour, notice);
    }
}

void RingNeighbours::send(Neighbour& neighbour, const Notice& notice) {
    std::string bytes = encode(notice);
    try {
        iovec part{bytes.data(), bytes.size()};
        // Notices are few and short, and the other end always reads; one that does not fit would tear the
        // stream.
        if (neighbour.link.write_some({&part, 1}) != bytes.size()) neighbour.link.shut_down();
    } catch (const LinkLost&) {
        // The thread finds the same when it reads from this neighbour next.
    }
}

}  // namespace detail
}  // namespace ddprun
