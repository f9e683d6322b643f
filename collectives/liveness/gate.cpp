#include "collectives/liveness/gate.hpp"

#include <algorithm>

namespace ddprun {

void Gate::add_descriptors(std::vector<pollfd>& descriptors) const {
    // With no room left, newcomers wait in the kernel's queue.
    if (unidentified_.size() < kMaxUnidentified) descriptors.push_back({listener_.descriptor(), POLLIN, 0});
    for (const Unidentified& connection : unidentified_) {
        descriptors.push_back({connection.link.descriptor(), POLLIN, 0});
    }
}

std::optional<Gate::Clock::time_point> Gate::next_limit() const {
    // In order of arrival, so the first is the earliest.
    if (unidentified_.empty()) return std::nullopt;
    return unidentified_.front().limit;
}

std::vector<Gate::Visitor> Gate::turn(Clock::time_point now) {
    accept_new(now);
    std::vector<Visitor> visitors;
    std::erase_if(unidentified_, [&](Unidentified& connection) {
        const Progress progress = read_hello(connection);
        if (progress == Progress::complete) {
            if (auto visitor = judge(connection)) visitors.push_back(std::move(*visitor));
        }
        return progress != Progress::waiting || now >= connection.limit;
    });
    return visitors;
}

void Gate::accept_new(Clock::time_point now) {
    while (unidentified_.size() < kMaxUnidentified) {
        ProcessDescriptor fd = listener_.accept();
        if (!fd) return;
        unidentified_.push_back({TcpLink(-1, std::move(fd)), {}, 0, now + kIdentifyLimit});
    }
}

Gate::Progress Gate::read_hello(Unidentified& connection) {
    try {
        iovec rest{connection.bytes.data() + connection.held, kHelloSize - connection.held};
        connection.held += connection.link.read_some({&rest, 1});
    } catch (const LinkLost&) {
        return Progress::useless;
    }
    return connection.held == kHelloSize ? Progress::complete : Progress::waiting;
}

std::optional<Gate::Visitor> Gate::judge(Unidentified& connection) {
    const auto hello = decode_hello(connection.bytes);
    if (!hello) return std::nullopt;
    const HelloAnswer answer = judge_(*hello);
    auto bytes = encode(answer);
    TcpLink link(hello->from, connection.link.release());
    try {
        iovec part{bytes.data(), bytes.size()};
        // The first bytes on a fresh connection always fit into its buffer.
        if (link.write_some({&part, 1}) != bytes.size()) return std::nullopt;
    } catch (const LinkLost&) {
        return std::nullopt;
    }
    if (answer != HelloAnswer::welcome) return std::nullopt;
    return Visitor{*hello, std::move(link)};
}

}  // namespace ddprun
