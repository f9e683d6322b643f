#include "collectives/liveness/link_acceptor.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun {
inline namespace detail {
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

// Closes without a trace: a crowd's ports would be taken for a minute by connections that have ended.
void cut_off(int fd) {
    const linger at_once{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

bool is_of_one_place(LinkHello one, LinkHello other) {
    one.challenge = other.challenge = std::nullopt;
    return one == other;
}

}  // namespace

void LinkAcceptor::add_descriptors(std::vector<pollfd>& descriptors) const {
    // When no room is left, newcomers wait in the kernel's queue.
    if (had_room_) descriptors.push_back({listener_.descriptor(), POLLIN, 0});
    for (const Caller& caller : callers_) descriptors.push_back({caller.link.descriptor(), POLLIN, 0});
}

std::optional<Deadline> LinkAcceptor::next_deadline() const {
    std::optional<Deadline> next;
    for (const Caller& caller : callers_) {
        const Deadline due = had_room_ || caller.hello ? caller.deadline : caller.may_go;
        next = std::min(next.value_or(due), due);
    }
    return next;
}

std::vector<LinkAcceptor::Accepted> LinkAcceptor::turn(Deadline now) {
    std::vector<Accepted> accepted;
    // First, so that nobody makes room who has said who it is.
    hear_all(now, accepted);
    ConnectionOwners owners;
    for (int taken = 0; taken < kMostTakenPerTurn && has_room(now); ++taken) {
        ProcessDescriptor fd = listener_.accept();
        if (!fd) break;
        if (is_of_another_user(fd.get(), own_, owners)) {
            cut_off(fd.get());
        } else {
            take(std::move(fd), now, accepted);
        }
    }
    had_room_ = has_room(now);
    return accepted;
}

std::vector<LinkAcceptor::Caller>::iterator LinkAcceptor::oldest_silent() {
    return std::ranges::find_if(callers_, [](const Caller& caller) { return !caller.hello; });
}

bool LinkAcceptor::has_room(Deadline now) {
    return silent_ < kMaxUnidentified || now >= oldest_silent()->may_go;
}

// Most have said all by now, and need no place.
void LinkAcceptor::take(ProcessDescriptor fd, Deadline now, std::vector<Accepted>& accepted) {
    Caller caller{
        .link = TcpLink(-1, std::move(fd)), .may_go = now + kLeastSilence, .deadline = now + kHelloTimeout};
    if (!hear(caller, now, accepted)) return;
    const bool is_silent = !caller.hello;
    if (is_silent && silent_ == kMaxUnidentified) {
        // The oldest may have spoken since it was heard.
        const auto oldest = oldest_silent();
        const bool stays = hear(*oldest, now, accepted);
        --silent_;
        if (stays && !oldest->hello) cut_off(oldest->link.descriptor());
        if (!stays || !oldest->hello) callers_.erase(oldest);
    }
    callers_.push_back(std::move(caller));
    silent_ += is_silent ? 1 : 0;
}

std::vector<LinkHello> LinkAcceptor::proving() const {
    std::vector<LinkHello> proving;
    for (const Caller& caller : callers_) {
        if (caller.hello) proving.push_back(*caller.hello);
    }
    return proving;
}

void LinkAcceptor::hear_all(Deadline now, std::vector<Accepted>& accepted) {
    polled_.clear();
    for (const Caller& caller : callers_) polled_.push_back({caller.link.descriptor(), POLLIN, 0});
    // One question for all: among a crowd of silent ones each would cost as much.
    ::poll(polled_.data(), polled_.size(), 0);
    for (std::size_t i = 0; i < callers_.size(); ++i) {
        const bool is_done = polled_[i].revents != 0 && !hear(callers_[i], now, accepted);
        callers_[i].is_over = is_done || now >= callers_[i].deadline;
    }
    std::erase_if(callers_, [](const Caller& caller) { return caller.is_over; });
    silent_ = static_cast<std::size_t>(
        std::ranges::count_if(callers_, [](const Caller& caller) { return !caller.hello; }));
}

bool LinkAcceptor::hear(Caller& caller, Deadline now, std::vector<Accepted>& accepted) {
    try {
        if (!caller.hello && !hear_hello(caller, now, accepted)) return false;
        return !caller.hello || hear_proof(caller, accepted);
    } catch (const LinkLost&) {
        // Closed like one that is not welcome.
    } catch (const boost::system::system_error&) {
        // There is no challenge to be had.
    }
    return false;
}

bool LinkAcceptor::hear_hello(Caller& caller, Deadline now, std::vector<Accepted>& accepted) {
    if (!is_complete(caller.link, caller.bytes, caller.held)) return true;
    const auto hello = decode_hello(caller.bytes);
    if (!hello) return false;
    listener_.tune_accepted(caller.link.descriptor());
    const HelloAnswer answer = judge_(*hello, false);
    TcpLink link(hello->from, caller.link.release());
    caller.link = std::move(link);
    if (answer == HelloAnswer::prove) return ask_for_proof(caller, *hello, now);
    auto bytes = encode(answer);
    if (sends(caller.link, bytes) && answer == HelloAnswer::welcome)
        accepted.push_back({*hello, std::move(caller.link)});
    return false;
}

bool LinkAcceptor::ask_for_proof(Caller& caller, const LinkHello& hello, Deadline now) {
    check(key_.has_value(), "only who has a key asks for its proof");
    const auto is_of_this_place = [&](const Caller& other) {
        return other.hello && !other.is_over && is_of_one_place(*other.hello, hello);
    };
    if (std::ranges::count_if(callers_, is_of_this_place) >= kCallersOfOnePlace) return false;
    caller.hello = hello;
    caller.held = 0;
    caller.challenge = random_nonce();
    caller.deadline = now + kHelloTimeout;
    const auto answer = encode(HelloAnswer::prove);
    const auto offer = encode(
        MeshOffer{caller.challenge, make_proof(*key_, MeshSide::dialled, caller.bytes, caller.challenge)});
    std::array<std::byte, kHelloAnswerSize + kOfferSize> bytes;
    std::copy(offer.begin(), offer.end(), std::copy(answer.begin(), answer.end(), bytes.begin()));
    return sends(caller.link, bytes);
}

bool LinkAcceptor::hear_proof(Caller& caller, std::vector<Accepted>& accepted) {
    if (!is_complete(caller.link, caller.proof, caller.held)) return true;
    const bool proven = is_proof(caller.proof, *key_, MeshSide::dialler, caller.bytes, caller.challenge);
    if (proven && judge_(*caller.hello, true) == HelloAnswer::welcome)
        accepted.push_back({*caller.hello, std::move(caller.link)});
    return false;
}

}  // namespace detail
}  // namespace ddprun
