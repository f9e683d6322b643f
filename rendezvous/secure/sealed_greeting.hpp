// The first words of a connection between two who have a key: what is sent, and what it means. Pure.
//
//     -> "DDPS", 'a' (an agent) or 's' (its workers' way to the store), 48 bytes of NNpsk0; those five are its prologue
//     <- 48 bytes, then both send records (sealed_records.hpp)
//     or "nk", end: no key is known here        or "wk", end: it is another one
//
// Nothing of it says what the job is. Who is turned away learns whether a key is asked for, and nothing else.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/secure/noise_nnpsk0.hpp"

namespace ddprun::inline job {

inline constexpr std::string_view kSealedMagic = "DDPS";
inline constexpr std::size_t kSealedCallBytes = kSealedMagic.size() + 1 + kNoiseHandshakeBytes;
inline constexpr std::size_t kSealedRefusalBytes = 2;

enum class SealedPurpose : char { agent = 'a', store = 's' };

enum class Proof {
    given,      // both have the same key
    no_key,     // the host of the conversation has none
    other_key,  // it has another one
    none,       // it broke off, or was never meant as such a conversation
};

// The caller's part.
class SealedCall {
  public:
    // `ephemeral`: fresh.
    SealedCall(SealedPurpose purpose, const SecretKey& key, const SecretKey& ephemeral);

    const std::string& bytes() const { return bytes_; }

    struct Result {
        Proof proof = Proof::none;
        std::optional<NoiseKeys> keys;  // if it was given
    };
    // Of all that came until there were 48 bytes, or the end.
    Result learn(std::string_view answer);

  private:
    std::string prologue_;
    NoiseCaller noise_;
    std::string bytes_;
};

struct SealedAnswer {
    Proof proof = Proof::none;
    std::string bytes;  // to be sent; where the proof is not given, the connection ends behind them
    std::optional<NoiseKeys> keys;  // if it was given
    SealedPurpose purpose = SealedPurpose::agent;
};

// The host's part. `call`: kSealedCallBytes that begin with kSealedMagic; `fresh` is asked for an ephemeral key only where the
// caller has proven itself.
SealedAnswer answer_sealed_call(std::string_view call, const std::optional<SecretKey>& key,
                                const std::function<SecretKey()>& fresh);

}  // namespace ddprun::inline job
