// The proof of the mesh's key: what two ranks show each other, so that nobody who has read the store, or listens, can take a
// rank's place. Pure.
//
// A proof is BLAKE2b-256 (libsodium's), keyed with the key, of a label, the Hello as it travelled, and the challenge of the
// rank that was dialled. The Hello has the caller's challenge, both ranks, the communicator and what the connection is for.
// Each side has a label of its own, so no proof can be sent back to who made it; both challenges are fresh, so none can be
// used twice.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "collectives/wire/frame.hpp"
#include "rendezvous/system/secret_key.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline detail {

inline constexpr std::size_t kProofSize = 32;
inline constexpr std::size_t kOfferSize = sizeof(Nonce) + kProofSize;

enum class MeshSide { dialled, dialler };

using HelloBytes = std::array<std::byte, kHelloSize>;
using MeshProof = std::array<std::byte, kProofSize>;

// `challenge`: of the rank that was dialled.
MeshProof make_proof(const SecretKey& key, MeshSide side, const HelloBytes& hello, const Nonce& challenge);
// Takes as long for a proof that is wrong in its last byte as in its first.
bool is_proof(const MeshProof& proof, const SecretKey& key, MeshSide side, const HelloBytes& hello,
              const Nonce& challenge);

// The rank that was dialled sends this behind HelloAnswer::prove.
struct MeshOffer {
    Nonce challenge{};
    MeshProof proof{};
};
std::array<std::byte, kOfferSize> encode(const MeshOffer& offer);
MeshOffer decode_offer(const std::array<std::byte, kOfferSize>& bytes);

// DDPRUN_MESH_KEY; nothing where it is not set. Throws invalid_argument, without its text, for what is no key.
std::optional<SecretKey> read_mesh_key(const Environment& environment);

}  // namespace ddprun::inline detail
