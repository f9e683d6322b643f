#include "rendezvous/secure/noise_handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <tuple>

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace job {
namespace {

using Hash = NoiseTranscript::Hash;

// The name is shorter than a hash: then it is the first one, zeros behind it.
constexpr std::string_view kNoiseProtocol = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";
static_assert(kNoiseProtocol.size() <= std::tuple_size_v<Hash>);
constexpr std::size_t kBlake2bBlock = 128;

std::string_view view_of(const unsigned char* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

std::string_view view_of(const Hash& hash) { return view_of(hash.data(), hash.size()); }

Hash blake2b(std::string_view first, std::string_view second) {
    Hash hash{};
    crypto_generichash_blake2b_state state;
    crypto_generichash_blake2b_init(&state, nullptr, 0, hash.size());
    crypto_generichash_blake2b_update(&state, data_of(first), first.size());
    crypto_generichash_blake2b_update(&state, data_of(second), second.size());
    crypto_generichash_blake2b_final(&state, hash.data(), hash.size());
    sodium_memzero(&state, sizeof state);
    return hash;
}

// HMAC, which Noise takes also with a hash that has a key of its own.
Hash hmac(const Hash& key, std::string_view text) {
    std::array<unsigned char, kBlake2bBlock> inner{}, outer{};
    std::copy(key.begin(), key.end(), inner.begin());
    outer = inner;
    for (unsigned char& byte : inner) byte ^= 0x36;
    for (unsigned char& byte : outer) byte ^= 0x5c;
    const Hash hash = blake2b(view_of(inner.data(), inner.size()), text);
    Hash result = blake2b(view_of(outer.data(), outer.size()), view_of(hash));
    sodium_memzero(inner.data(), inner.size());
    sodium_memzero(outer.data(), outer.size());
    return result;
}

// Noise's HKDF: as many outputs as the array has.
template <std::size_t kOutputs>
std::array<Hash, kOutputs> derive(const Hash& chain, std::string_view material) {
    Hash temporary = hmac(chain, material);
    std::array<Hash, kOutputs> outputs;
    std::string last;
    for (std::size_t i = 0; i < kOutputs; ++i) {
        last += static_cast<char>(i + 1);
        outputs[i] = hmac(temporary, last);
        last = view_of(outputs[i]);
    }
    sodium_memzero(temporary.data(), temporary.size());
    wipe(last);
    return outputs;
}

template <std::size_t kOutputs>
void wipe_all(std::array<Hash, kOutputs>& outputs) {
    for (Hash& output : outputs) sodium_memzero(output.data(), output.size());
}

SecretKey key_of(const Hash& hash) { return SecretKey(view_of(hash)); }

std::string point_of(const SecretKey& ephemeral) {
    std::string point(kNoisePointBytes, '\0');
    crypto_scalarmult_base(reinterpret_cast<unsigned char*>(point.data()), ephemeral.data());
    return point;
}

// Nothing for the few points whose result an attacker would know beforehand.
std::optional<SecretKey> shared_secret(const SecretKey& ephemeral, std::string_view point) {
    SecretKey shared;
    if (crypto_scalarmult(shared.data(), ephemeral.data(), data_of(point)) != 0) return std::nullopt;
    return shared;
}

}  // namespace

NoiseTranscript::NoiseTranscript(const SecretKey& psk, std::string_view prologue) {
    std::copy(kNoiseProtocol.begin(), kNoiseProtocol.end(), hash_.begin());
    chain_ = hash_;
    mix_hash(prologue);
    auto outputs = derive<3>(chain_, view_of(psk.data(), SecretKey::kBytes));
    chain_ = outputs[0];
    mix_hash(view_of(outputs[1]));
    cipher_ = NoiseCipher(key_of(outputs[2]));
    wipe_all(outputs);
}

NoiseTranscript::~NoiseTranscript() { sodium_memzero(chain_.data(), chain_.size()); }

void NoiseTranscript::mix_hash(std::string_view bytes) { hash_ = blake2b(view_of(hash_), bytes); }

void NoiseTranscript::mix_key(std::string_view material) {
    auto outputs = derive<2>(chain_, material);
    chain_ = outputs[0];
    cipher_ = NoiseCipher(key_of(outputs[1]));
    wipe_all(outputs);
}

// The point becomes part of the key, too, in a handshake with a pre-shared key.
void NoiseTranscript::mix_point(std::string_view point) {
    mix_hash(point);
    mix_key(point);
}

void NoiseTranscript::mix_shared(const SecretKey& shared) {
    mix_key(view_of(shared.data(), SecretKey::kBytes));
}

std::string NoiseTranscript::seal(std::string_view payload) {
    std::string sealed;
    cipher_.encrypt(payload, view_of(hash_), sealed);
    mix_hash(sealed);
    return sealed;
}

std::optional<std::string> NoiseTranscript::open(std::string_view sealed) {
    std::string payload;
    if (!cipher_.decrypt(sealed, view_of(hash_), payload)) return std::nullopt;
    mix_hash(sealed);
    return payload;
}

std::array<SecretKey, 2> NoiseTranscript::split() const {
    auto outputs = derive<2>(chain_, {});
    std::array<SecretKey, 2> keys{key_of(outputs[0]), key_of(outputs[1])};
    wipe_all(outputs);
    return keys;
}

NoiseCaller::NoiseCaller(const SecretKey& psk, std::string_view prologue, const SecretKey& ephemeral)
    : transcript_(psk, prologue), ephemeral_(ephemeral) {}

std::string NoiseCaller::first(std::string_view payload) {
    const std::string point = point_of(ephemeral_);
    transcript_.mix_point(point);
    return point + transcript_.seal(payload);
}

std::optional<NoiseKeys> NoiseCaller::finish(std::string_view answer, std::string* payload) {
    if (answer.size() < kNoiseHandshakeBytes) return std::nullopt;
    const std::string_view point = answer.substr(0, kNoisePointBytes);
    transcript_.mix_point(point);
    const auto shared = shared_secret(ephemeral_, point);
    if (!shared) return std::nullopt;
    transcript_.mix_shared(*shared);
    auto text = transcript_.open(answer.substr(kNoisePointBytes));
    if (!text) return std::nullopt;
    if (payload != nullptr) *payload = std::move(*text);
    const auto keys = transcript_.split();
    return NoiseKeys{keys[0], keys[1], transcript_.hash()};
}

std::optional<std::string> NoiseResponder::take(std::string_view first) {
    if (first.size() < kNoiseHandshakeBytes) return std::nullopt;
    callers_point_ = first.substr(0, kNoisePointBytes);
    transcript_.mix_point(callers_point_);
    return transcript_.open(first.substr(kNoisePointBytes));
}

std::optional<NoiseResponder::Answer> NoiseResponder::answer(const SecretKey& ephemeral,
                                                             std::string_view payload) {
    check(callers_point_.size() == kNoisePointBytes, "a handshake is answered before it was begun");
    const auto shared = shared_secret(ephemeral, callers_point_);
    if (!shared) return std::nullopt;
    std::string message = point_of(ephemeral);
    transcript_.mix_point(message);
    transcript_.mix_shared(*shared);
    message += transcript_.seal(payload);
    const auto keys = transcript_.split();
    return Answer{std::move(message), {keys[1], keys[0], transcript_.hash()}};
}

}  // namespace job
}  // namespace ddprun
