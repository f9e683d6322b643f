#include "collectives/liveness/link_acceptor.hpp"

namespace ddprun {

void LinkAcceptor::add_descriptors(std::vector<pollfd>& descriptors) const {
    // With no room left, newcomers wait in the kernel's queue.
    if (had_room_) descriptors.push_back({listener_.descriptor(), POLLIN, 0});
    for (const Unidentified& connection : unidentified_) {
        descriptors.push_back({connection.link.descriptor(), POLLIN, 0});
    }
}

std::optional<Deadline> LinkAcceptor::next_deadline() const {
    if (unidentified_.empty()) return std::nullopt;
    return had_room_ ? unidentified_.front().deadline : unidentified_.front().may_go;
}

std::vector<LinkAcceptor::Accepted> LinkAcceptor::turn(Deadline now) {
    std::vector<Accepted> accepted;
    // First, so that nobody makes room who has said who it is.
    hear(now, accepted);
    while (has_room(now)) {
        ProcessDescriptor fd = listener_.accept();
        if (!fd) break;
        if (unidentified_.size() == kMaxUnidentified) unidentified_.erase(unidentified_.begin());
        unidentified_.push_back(
            {TcpLink(-1, std::move(fd)), {}, 0, now + kLeastSilence, now + kHelloTimeout});
    }
    had_room_ = has_room(now);
    return accepted;
}

bool LinkAcceptor::has_room(Deadline now) const {
    return unidentified_.size() < kMaxUnidentified || now >= unidentified_.front().may_go;
}

void LinkAcceptor::hear(Deadline now, std::vector<Accepted>& accepted) {
    std::erase_if(unidentified_, [&](Unidentified& connection) {
        try {
            iovec rest{connection.bytes.data() + connection.held, kHelloSize - connection.held};
            connection.held += connection.link.read_some({&rest, 1});
            if (connection.held < kHelloSize) return now >= connection.deadline;
            judge(connection, accepted);
        } catch (const LinkLost&) {
            // Closed like one that is not welcome.
        }
        return true;
    });
}

void LinkAcceptor::judge(Unidentified& connection, std::vector<Accepted>& accepted) {
    const auto hello = decode_hello(connection.bytes);
    if (!hello) return;
    const HelloAnswer answer = judge_(*hello);
    auto bytes = encode(answer);
    TcpLink link(hello->from, connection.link.release());
    iovec part{bytes.data(), bytes.size()};
    // The first bytes on a fresh connection always fit into its buffer.
    const bool answered = link.write_some({&part, 1}) == bytes.size();
    if (answered && answer == HelloAnswer::welcome) accepted.push_back({*hello, std::move(link)});
}

}  // namespace ddprun
