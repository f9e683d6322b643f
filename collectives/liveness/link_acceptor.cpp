#include "collectives/liveness/link_acceptor.hpp"

#include <algorithm>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline detail {
namespace {

// Reads into `bytes`, of which `held` are there; true once all are.
bool is_complete(TcpLink& link, std::span<std::byte> bytes, std::size_t& held) {
    iovec rest{bytes.data() + held, bytes.size() - held};
    held += link.read_some({&rest, 1});
    return held == bytes.size();
}

// The first bytes on a fresh connection always fit into its buffer.
bool sends(TcpLink& link, std::span<std::byte> bytes) {
    iovec part{bytes.data(), bytes.size()};
    return link.write_some({&part, 1}) == bytes.size();
}

}  // namespace

void LinkAcceptor::add_descriptors(std::vector<pollfd>& descriptors) const {
    // When no room is left, newcomers wait in the kernel's queue.
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
        unidentified_.push_back({.link = TcpLink(-1, std::move(fd)),
                                 .may_go = now + kLeastSilence,
                                 .deadline = now + kHelloTimeout});
    }
    had_room_ = has_room(now);
    return accepted;
}

bool LinkAcceptor::has_room(Deadline now) const {
    return unidentified_.size() < kMaxUnidentified || now >= unidentified_.front().may_go;
}

std::vector<LinkHello> LinkAcceptor::proving() const {
    std::vector<LinkHello> proving;
    for (const Unidentified& connection : unidentified_) {
        if (connection.hello) proving.push_back(*connection.hello);
    }
    return proving;
}

void LinkAcceptor::hear(Deadline now, std::vector<Accepted>& accepted) {
    std::erase_if(unidentified_, [&](Unidentified& connection) {
        try {
            if (!connection.hello && !hear_hello(connection, accepted)) return true;
            if (connection.hello && !hear_proof(connection, accepted)) return true;
            return now >= connection.deadline;
        } catch (const LinkLost&) {
            // Closed like one that is not welcome.
        } catch (const boost::system::system_error&) {
            // There is no challenge to be had.
        }
        return true;
    });
}

bool LinkAcceptor::hear_hello(Unidentified& connection, std::vector<Accepted>& accepted) {
    if (!is_complete(connection.link, connection.bytes, connection.held)) return true;
    const auto hello = decode_hello(connection.bytes);
    if (!hello) return false;
    const HelloAnswer answer = judge_(*hello, false);
    TcpLink link(hello->from, connection.link.release());
    connection.link = std::move(link);
    if (answer == HelloAnswer::prove) return ask_for_proof(connection, *hello);
    auto bytes = encode(answer);
    if (sends(connection.link, bytes) && answer == HelloAnswer::welcome)
        accepted.push_back({*hello, std::move(connection.link)});
    return false;
}

bool LinkAcceptor::ask_for_proof(Unidentified& connection, const LinkHello& hello) {
    check(key_.has_value(), "only who has a key asks for its proof");
    connection.hello = hello;
    connection.held = 0;
    connection.challenge = random_nonce();
    const auto answer = encode(HelloAnswer::prove);
    const auto offer = encode(MeshOffer{
        connection.challenge, make_proof(*key_, MeshSide::dialled, connection.bytes, connection.challenge)});
    std::array<std::byte, kHelloAnswerSize + kOfferSize> bytes;
    std::copy(offer.begin(), offer.end(), std::copy(answer.begin(), answer.end(), bytes.begin()));
    return sends(connection.link, bytes);
}

bool LinkAcceptor::hear_proof(Unidentified& connection, std::vector<Accepted>& accepted) {
    if (!is_complete(connection.link, connection.proof, connection.held)) return true;
    const bool proven =
        is_proof(connection.proof, *key_, MeshSide::dialler, connection.bytes, connection.challenge);
    if (proven && judge_(*connection.hello, true) == HelloAnswer::welcome)
        accepted.push_back({*connection.hello, std::move(connection.link)});
    return false;
}

}  // namespace ddprun::inline detail
