#include "collectives/liveness/link_acceptor.hpp"

namespace ddprun {

void LinkAcceptor::add_descriptors(std::vector<pollfd>& descriptors) const {
    // With no room left, newcomers wait in the kernel's queue.
    if (unidentified_.size() < kMaxUnidentified) descriptors.push_back({listener_.descriptor(), POLLIN, 0});
    for (const Unidentified& connection : unidentified_) {
        descriptors.push_back({connection.link.descriptor(), POLLIN, 0});
    }
}

std::optional<Deadline> LinkAcceptor::next_deadline() const {
    if (unidentified_.empty()) return std::nullopt;
    return unidentified_.front().deadline;
}

std::vector<LinkAcceptor::Accepted> LinkAcceptor::turn(Deadline now) {
    while (unidentified_.size() < kMaxUnidentified) {
        ProcessDescriptor fd = listener_.accept();
        if (!fd) break;
        unidentified_.push_back({TcpLink(-1, std::move(fd)), {}, 0, now + kHelloTimeout});
    }
    std::vector<Accepted> accepted;
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
    return accepted;
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
