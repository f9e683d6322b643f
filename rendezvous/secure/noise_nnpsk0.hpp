// Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b (noiseprotocol.org, revision 34): both sides prove that they have the same key, and
// agree on two keys of this one connection. Pure; no thread's in particular.
//
//     -> psk, e        32 bytes of a curve point | payload | 16 of its tag
//     <- e, ee         the same three
//
// The tag of the first message is made of the key alone, and is checked before anything of the curve is computed: the
// responder is handed its own ephemeral key only behind that. What a caller sent before (a replay) gets an answer, of
// which nobody makes keys who does not have the ephemeral key behind the first message.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/system/secret_key.hpp"

namespace ddprun::inline job {

inline constexpr std::size_t kNoisePointBytes = 32;
inline constexpr std::size_t kNoiseTagBytes = 16;
// A handshake message without a payload.
inline constexpr std::size_t kNoiseHandshakeBytes = kNoisePointBytes + kNoiseTagBytes;

// NoiseCipher has one direction: ChaCha20-Poly1305 with a counter. It encrypts so that a bit that flips, and a message that is left out,
// repeated or moved, is noticed.
class NoiseCipher {
  public:
    explicit NoiseCipher(const SecretKey& key) : key_(key) {}

    // The text and its tag are put behind what `into` has. `associated`: proven along with it, not sent.
    void encrypt(std::string_view plain, std::string_view associated, std::string& into);
    // False: it is not what was encrypted there with this key and at this place; `into` is as it was.
    [[nodiscard]] bool decrypt(std::string_view sealed, std::string_view associated, std::string& into);

  private:
    std::array<unsigned char, 12> next_nonce();

    SecretKey key_;
    std::uint64_t count_ = 0;
};

// NoiseTranscript is the handshake so far. Both sides' is the same as long as they have seen the same.
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
    // The caller's direction first.
    std::array<SecretKey, 2> split() const;

  private:
    void mix_hash(std::string_view bytes);
    void mix_key(std::string_view material);

    Hash hash_{};
    Hash chain_{};
    NoiseCipher cipher_{SecretKey{}};
};

// NoiseKeys are those of the connection, once both sides have proven themselves.
struct NoiseKeys {
    SecretKey send;
    SecretKey receive;
    NoiseTranscript::Hash handshake{};  // the same on both sides, and no other connection's
};

class NoiseCaller {
  public:
    // `ephemeral`: a fresh key, of this connection only.
    NoiseCaller(const SecretKey& psk, std::string_view prologue, const SecretKey& ephemeral);

    // Once.
    std::string first(std::string_view payload = {});
    // Nothing: the other side does not have the key, or has not seen what we sent.
    std::optional<NoiseKeys> finish(std::string_view answer, std::string* payload = nullptr);

  private:
    NoiseTranscript transcript_;
    SecretKey ephemeral_;
};

class NoiseResponder {
  public:
    NoiseResponder(const SecretKey& psk, std::string_view prologue) : transcript_(psk, prologue) {}

    // The payload; nothing: the caller does not have the key, or says something else.
    std::optional<std::string> take(std::string_view first);

    struct Answer {
        std::string message;
        NoiseKeys keys;
    };
    // After take(). Nothing: the caller's point is none that a shared secret is made of.
    std::optional<Answer> answer(const SecretKey& ephemeral, std::string_view payload = {});

  private:
    NoiseTranscript transcript_;
    std::string callers_point_;
};

}  // namespace ddprun::inline job
