#include "collectives/wire/redial.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace detail {

std::optional<std::chrono::milliseconds> Redial::pause_after(int error_number, bool within_machine) {
    const bool was_closed = error_number == 0 || error_number == ECONNRESET || error_number == EPIPE;
    const bool is_crowded = within_machine && error_number == ETIMEDOUT;
    if (!was_closed && !is_crowded) return std::nullopt;
    if (is_crowded) patience_ = std::min(patience_ * 2, kLongestPatience);
    if (!std::exchange(has_called_, true)) return std::chrono::milliseconds(0);
    // Ranks that were closed together do not come back together.
    if (!chance_) chance_.emplace(random_number<std::uint32_t>("pauses"));
    std::uniform_int_distribution<std::chrono::milliseconds::rep> jitter(pause_.count() / 2,
                                                                         pause_.count() * 3 / 2);
    pause_ = std::min(pause_ * 2, kLongestRedialPause);
    return std::chrono::milliseconds(jitter(*chance_));
}

Dial::Dial(const Membership& membership, int peer, Channel channel, int lane)
    : membership_(membership), peer_(peer), channel_(channel), lane_(lane) {}

bool Dial::go_on() {
    while (true) {
        try {
            return go_on_once();
        } catch (const LinkLost& lost) {
            const auto pause = redial_.pause_after(lost.error_number, membership_.is_within_machine(peer_));
            if (!pause) throw;
            link_ = TcpLink();
            heard_bytes_ = 0;
            stage_ = Stage::paused;
            until_ = Deadline::clock::now() + *pause;
        }
    }
}

short Dial::awaits() const {
    if (stage_ == Stage::paused) return 0;
    return stage_ == Stage::answered || stage_ == Stage::proven ? POLLIN : POLLOUT;
}

bool Dial::go_on_once() {
    if (stage_ == Stage::paused) {
        if (!has_passed(until_)) return false;
        begin();
    }
    if (stage_ == Stage::connecting) {
        pollfd polled{link_.descriptor(), POLLOUT, 0};
        if (::poll(&polled, 1, 0) != 1) {
            if (has_passed(until_)) throw LinkLost{peer_, ETIMEDOUT};
            return false;
        }
        until_ = Deadline::max();
        if (const int error = connect_error(link_.descriptor()); error != 0) throw LinkLost{peer_, error};
        write_whole(hello_);
        stage_ = Stage::answered;
    }
    if (stage_ == Stage::answered) {
        if (!hear(kHelloAnswerSize)) return false;
        take_answer();
    }
    if (stage_ == Stage::proven) {
        if (!hear(kOfferSize)) return false;
        prove();
    }
    return true;
}

void Dial::begin() {
    LinkHello hello{channel_, membership_.round, membership_.communicator,        membership_.rank,
                    peer_,    membership_.nonce, static_cast<std::uint8_t>(lane_)};
    try {
        if (membership_.mesh_key) hello.challenge = random_nonce();
        link_ = TcpLink(peer_, begin_connect(membership_.member(peer_).endpoint));
    } catch (const boost::system::system_error& error) {
        throw DialRefused{fmt::format("rank {} cannot be reached: {}", peer_, error.what())};
    }
    hello_ = encode(hello);
    stage_ = Stage::connecting;
    until_ =
        membership_.is_within_machine(peer_) ? Deadline::clock::now() + redial_.patience() : Deadline::max();
}

void Dial::take_answer() {
    const auto answer = decode_hello_answer(std::span(heard_).first<kHelloAnswerSize>());
    const bool has_key = membership_.mesh_key.has_value();
    if (answer == (has_key ? HelloAnswer::prove : HelloAnswer::welcome)) {
        stage_ = has_key ? Stage::proven : Stage::done;
        return;
    }
    // The rank's port is closed, and somebody else got it; or it is its family's, and this communicator has
    // ended there.
    const bool has_gone = answer == HelloAnswer::other_rank || answer == HelloAnswer::other_communicator ||
                          answer == HelloAnswer::other_job;
    if (has_gone) throw LinkLost{peer_, ECONNREFUSED};
    const std::string at = to_string(membership_.member(peer_).endpoint);
    const bool refused = answer && answer != HelloAnswer::welcome && answer != HelloAnswer::prove;
    throw DialRefused{refused ? fmt::format("rank {} at {} refused the connection of rank {}: {}", peer_, at,
                                            membership_.rank, reason_of(*answer))
                              : fmt::format("what listens at {} is not rank {}", at, peer_)};
}

void Dial::prove() {
    const MeshOffer offer = decode_offer(heard_);
    const SecretKey& key = *membership_.mesh_key;
    if (!is_proof(offer.proof, key, MeshSide::dialled, hello_, offer.challenge))
        throw DialRefused{
            fmt::format("what listens at {} as rank {} has another DDPRUN_MESH_KEY than rank {}",
                        to_string(membership_.member(peer_).endpoint), peer_, membership_.rank)};
    MeshProof proof = make_proof(key, MeshSide::dialler, hello_, offer.challenge);
    write_whole(proof);
    stage_ = Stage::done;
}

// The first bytes always fit into the buffer.
void Dial::write_whole(std::span<std::byte> bytes) {
    iovec part{bytes.data(), bytes.size()};
    if (link_.write_some({&part, 1}) != bytes.size()) throw LinkLost{peer_, EMSGSIZE};
}

bool Dial::hear(std::size_t bytes) {
    while (heard_bytes_ < bytes) {
        iovec part{heard_.data() + heard_bytes_, bytes - heard_bytes_};
        const std::size_t count = link_.read_some({&part, 1});
        if (count == 0) return false;
        heard_bytes_ += count;
    }
    heard_bytes_ = 0;
    return true;
}

}  // namespace detail
}  // namespace ddprun
