// NoiseCaller and NoiseResponder do Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b (noiseprotocol.org, revision 34):
// they prove that they have the same key, and agree on two keys of this one connection. Pure; no thread's in
// particular.
//
//     -> psk, e        32 bytes of a curve point | payload | 16 of its tag
//     <- e, ee         the same three
//
// The tag of the first message is made of the key alone, and is checked before anything of the curve is
// computed: the responder is handed its own ephemeral key only after the check. A replayed first message gets
// an answer, but only the holder of the ephemeral key behind that message can make keys of it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/secure/noise_cipher.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::size_t kNoisePointBytes = 32;

// kNoiseHandshakeBytes: a handshake message without a payload.
inline constexpr std::size_t kNoiseHandshakeBytes = kNoisePointBytes + kNoiseTagBytes;

// NoiseTranscript is the handshake so far, the same on both sides as long as they have seen the same.
class NoiseTranscript {
  public:
    using Hash = std::array<unsigned char, 64>;

    NoiseTranscript(const SecretKey& psk, std::string_view prologue);
    ~NoiseTranscript();
    NoiseTranscript(const NoiseTranscript&) = default;
    NoiseTranscript& operator=(const NoiseTranscript&) = default;

    const Hash& hash() const { return hash_; }

    void mix_point(std::string_view point);
    void mix_shared(const SecretKey& shared);
    std::string seal(std::string_view payload);
    [[nodiscard]] std::optional<std::string> open(std::string_view sealed);
    // Returns the keys of the two directions, the caller's first.
    std::array<SecretKey, 2> split() const;

  private:
    void mix_hash(std::string_view bytes);
    void mix_key(std::string_view material);

    Hash hash_{};
    Hash chain_{};
    NoiseCipher cipher_{SecretKey{}};
};

// NoiseKeys are a connection's keys, once both sides have proven the job's key.
struct NoiseKeys {
    SecretKey send;
    SecretKey receive;
    NoiseTranscript::Hash handshake{};  // the same on both sides, and no other connection's
};

class NoiseCaller {
  public:
    // NoiseCaller takes a fresh key for `ephemeral`, of this connection only.
    NoiseCaller(const SecretKey& psk, std::string_view prologue, const SecretKey& ephemeral);

    // Makes the first message; called once.
    std::string first(std::string_view payload = {});
    // Returns the keys; nothing: the other side does not have the key, or has not seen what we sent.
    std::optional<NoiseKeys> finish(std::string_view answer, std::string* payload = nullptr);

  private:
    NoiseTranscript transcript_;
    SecretKey ephemeral_;
};

class NoiseResponder {
  public:
    NoiseResponder(const SecretKey& psk, std::string_view prologue) : transcript_(psk, prologue) {}

    // Returns the payload; nothing: the caller does not have the key, or says something else.
    std::optional<std::string> take(std::string_view first);

    struct Answer {
        std::string message;
        NoiseKeys keys;
    };
    // Answers, after take(). Nothing: no shared secret can be made of the caller's point.
    std::optional<Answer> answer(const SecretKey& ephemeral, std::string_view payload = {});

  private:
    NoiseTranscript transcript_;
    std::string callers_point_;
};

}  // namespace job
}  // namespace ddprun
