#include "collectives/wire/mesh_proof.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "collectives/error.hpp"

namespace ddprun::inline detail {
namespace {

constexpr std::string_view kDialledLabel = "ddprun mesh dialled 1";
constexpr std::string_view kDiallerLabel = "ddprun mesh dialler 1";

static_assert(SecretKey::kBytes >= crypto_generichash_KEYBYTES_MIN &&
              SecretKey::kBytes <= crypto_generichash_KEYBYTES_MAX && kProofSize == crypto_generichash_BYTES);

void add_to_hash(crypto_generichash_state& state, const void* bytes, std::size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char*>(bytes), size);
}

}  // namespace

MeshProof make_proof(const SecretKey& key, MeshSide side, const HelloBytes& hello, const Nonce& challenge) {
    const std::string_view label = side == MeshSide::dialled ? kDialledLabel : kDiallerLabel;
    MeshProof proof;
    crypto_generichash_state state;
    crypto_generichash_init(&state, key.data(), SecretKey::kBytes, proof.size());
    add_to_hash(state, label.data(), label.size());
    add_to_hash(state, hello.data(), hello.size());
    add_to_hash(state, challenge.data(), challenge.size());
    crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(proof.data()), proof.size());
    sodium_memzero(&state, sizeof(state));
    return proof;
}

bool is_proof(const MeshProof& proof, const SecretKey& key, MeshSide side, const HelloBytes& hello,
              const Nonce& challenge) {
    const MeshProof right = make_proof(key, side, hello, challenge);
    return sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

std::array<std::byte, kOfferSize> encode(const MeshOffer& offer) {
    static_assert(std::has_unique_object_representations_v<MeshOffer>);
    return std::bit_cast<std::array<std::byte, kOfferSize>>(offer);
}

MeshOffer decode_offer(const std::array<std::byte, kOfferSize>& bytes) {
    return std::bit_cast<MeshOffer>(bytes);
}

std::optional<SecretKey> read_mesh_key(const Environment& environment) {
    const std::string* text = find_variable(environment, kMeshKeyVariable);
    if (text == nullptr) return std::nullopt;
    auto key = parse_secret_key(*text);
    if (key) return key;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          fmt::format("join: {} in the environment is not {} hexadecimal digits",
                                      kMeshKeyVariable, 2 * SecretKey::kBytes),
                          {}, "join");
}

}  // namespace ddprun::inline detail
