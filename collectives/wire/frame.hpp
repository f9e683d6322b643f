// LinkHello, HelloAnswer, MeshOffer and headers: the bytes that collectives put on TCP connections. Pure.
//
// All integers are little-endian, as the elements themselves are.
//   Hello    60 bytes, the first of every connection, from the rank that dials:
//              u32 magic, u16 version, u8 channel, u8 lane, u32 round, u32 communicator, i32 from, i32 to, 16
//              bytes nonce (of the communicator, known through the store only: without a key of the mesh,
//              only the nonce shows that the caller belongs to this job), u32 1 where the caller has a key,
//              else 0, 16 bytes challenge (fresh and random for each connection with a key, else 0)
//   Answer   8 bytes, back: u32 magic, u32 HelloAnswer. A connection without the magic is closed unanswered.
// and where both have a key, so that the answer is HelloAnswer::prove:
//   Offer    48 bytes, behind that answer: 16 bytes challenge, fresh and random; 32 bytes proof
//   Proof    32 bytes, from the rank that dials, which sends data behind it without another answer; without
//            the proof the connection is closed
//   Header   32 bytes, then the payload, on data connections, which carry one direction, dialer to listener:
//              u32 magic, u8 operation, u8 type, u8 reduce, u8 compression, u64 count, u64 sequence, i32
//              root, u32 0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "collectives/call/call.hpp"
#include "rendezvous/system/secret_key.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

// Nonce: a random number of a communicator that only its ranks know.

using Nonce = std::array<std::uint8_t, 16>;

// Returns a nonce that the system makes. Throws system_error.
Nonce random_nonce();
// Returns another nonce for each text, which can be computed only with `nonce`. Pure.
Nonce derived_nonce(const Nonce& nonce, std::string_view text);

inline constexpr std::size_t kHelloSize = 60;
inline constexpr std::size_t kHelloAnswerSize = 8;
inline constexpr std::size_t kHeaderSize = 32;

// Channel: what a connection is for. messages: those by tag, one connection for each direction.
enum class Channel : std::uint8_t { lifeline = 0, data = 1, messages = 2 };

// kMaxLanes: the most lanes: data connections of one direction between two ranks, which share large messages.
inline constexpr int kMaxLanes = 4;

struct LinkHello {
    Channel channel = Channel::data;
    std::uint32_t round = 0;         // restart count of the job
    std::uint32_t communicator = 0;  // counted within the round
    std::int32_t from = 0;
    std::int32_t to = 0;
    Nonce nonce{};
    std::uint8_t lane = 0;  // of data connections, below the number that the ranks agreed on
    std::optional<Nonce> challenge = std::nullopt;  // nothing where the caller has no key

    bool operator==(const LinkHello&) const = default;
};

enum class HelloAnswer : std::uint32_t {
    welcome = 0,
    other_job = 1,           // the nonce is not ours
    other_round = 2,         // a worker from before a restart, or after one
    other_communicator = 3,  // another communicator of this job
    other_rank = 4,          // not addressed to this rank, or from no rank of this communicator
    repeated = 5,            // this rank has this connection already
    other_lane = 6,          // more connections than the ranks agreed on
    key_wanted = 7,          // only this rank has a key of the mesh
    key_unknown = 8,         // only the caller has one
    prove = 9,               // both have a key: show that it is the same
};

// Returns why a rank was not let in, as the rest of "refused the connection: …".
std::string_view reason_of(HelloAnswer answer) noexcept;

std::array<std::byte, kHelloSize> encode(const LinkHello& hello);
// Returns nothing if the bytes are no Hello of this version.
std::optional<LinkHello> decode_hello(std::span<const std::byte, kHelloSize> bytes);

std::array<std::byte, kHelloAnswerSize> encode(HelloAnswer answer);
std::optional<HelloAnswer> decode_hello_answer(std::span<const std::byte, kHelloAnswerSize> bytes);

// Encodes a call as a header; decode_header() returns nothing if the bytes are no header or name unknown
// enumerators.
std::array<std::byte, kHeaderSize> encode_header(const Call& call);
std::optional<Call> decode_header(std::span<const std::byte, kHeaderSize> bytes);

// MeshProof: a proof that a rank has the mesh's key. Two ranks show each other theirs, so that an attacker
// who has read the store, or listens, cannot take a rank's place. Pure.
//
// A proof is BLAKE2b-256 (libsodium's), keyed with the key, of a label, the Hello as it travelled, and the
// challenge of the rank that was dialled. The Hello has the caller's challenge, both ranks, the communicator
// and the purpose of the connection. Each side has a label of its own, so no proof can be sent back to its
// maker. Each challenge is fresh, so no proof can be used twice.

inline constexpr std::size_t kProofSize = 32;
inline constexpr std::size_t kOfferSize = sizeof(Nonce) + kProofSize;

enum class MeshSide { dialled, dialler };

using HelloBytes = std::array<std::byte, kHelloSize>;
using MeshProof = std::array<std::byte, kProofSize>;

// Makes a proof; `challenge` is that of the rank that was dialled.
MeshProof make_proof(const SecretKey& key, MeshSide side, const HelloBytes& hello, const Nonce& challenge);
// Compares a proof with the right one; takes as long if the last byte is wrong as if the first is.
bool is_proof(const MeshProof& proof, const SecretKey& key, MeshSide side, const HelloBytes& hello,
              const Nonce& challenge);

// MeshOffer: what the rank that was dialled sends behind HelloAnswer::prove.
struct MeshOffer {
    Nonce challenge{};
    MeshProof proof{};
};
std::array<std::byte, kOfferSize> encode(const MeshOffer& offer);
MeshOffer decode_offer(const std::array<std::byte, kOfferSize>& bytes);

// Returns the key in DDPRUN_MESH_KEY; nothing where it is not set. For a text that is no key, throws
// invalid_argument, which does not show the text.
std::optional<SecretKey> read_mesh_key(const Environment& environment);

}  // namespace detail
}  // namespace ddprun
