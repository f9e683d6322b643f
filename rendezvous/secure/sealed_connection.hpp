// SealedCall and answer_sealed_call() are the first words between two ends with a key; SealedRecords
// (sealed_records.hpp) are what follows.
//
//     -> "DDPS", then 'a' (an agent) or 's' (its workers' way to the store): the prologue; 48 bytes of NNpsk0
//     <- 48 bytes; or "nk" and the end: no key is known here; or "wk" and the end: the key is another one
//     then both send records: u16 length, little endian, 16..65535 | that many bytes
//
// Nothing of it says what the job is. A caller that is turned away learns only whether a key is asked for.
// All functions are pure but for call_sealed() and answer_sealed(), which say the first words over a socket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/secure/noise_handshake.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::string_view kSealedMagic = "DDPS";
inline constexpr std::size_t kSealedCallBytes = kSealedMagic.size() + 1 + kNoiseHandshakeBytes;
inline constexpr std::size_t kSealedRefusalBytes = 2;

enum class SealedPurpose : char { agent = 'a', store = 's' };

enum class Proof {
    given,      // both sides have the same key
    no_key,     // the answering side has no key
    other_key,  // the answering side has another key
    none,       // the other side broke off, or does not speak this protocol
};

// SealedCall is the caller's part of the first words.
class SealedCall {
  public:
    // SealedCall takes a fresh key for `ephemeral`.
    SealedCall(SealedPurpose purpose, const SecretKey& key, const SecretKey& ephemeral);

    const std::string& bytes() const { return bytes_; }

    struct Result {
        Proof proof = Proof::none;
        std::optional<NoiseKeys> keys;  // if the proof is given
    };
    // Reads all that came until there were 48 bytes, or the end.
    Result learn(std::string_view answer);

  private:
    std::string prologue_;
    NoiseCaller noise_;
    std::string bytes_;
};

struct SealedAnswer {
    Proof proof = Proof::none;
    std::string bytes;  // to be sent; where the proof is not given, the connection ends behind them
    std::optional<NoiseKeys> keys;  // if the proof is given
    SealedPurpose purpose = SealedPurpose::agent;
};

// Makes the host's part. `call`: kSealedCallBytes that begin with kSealedMagic; `fresh` is asked for an
// ephemeral key only where the caller has proven itself.
SealedAnswer answer_sealed_call(std::string_view call, const std::optional<SecretKey>& key,
                                const std::function<SecretKey()>& fresh);

// --- the first words over a socket, on its executor's thread. The connection stays open; the socket's owner
// ends it where no proof was given.

// kSealTimeout: how long the other side may take for its part.
inline constexpr std::chrono::seconds kSealTimeout{5};

// Says the caller's part: Proof::none also when the connection breaks or the time is over.
boost::asio::awaitable<SealedCall::Result> call_sealed(boost::asio::ip::tcp::socket& socket,
                                                       SealedPurpose purpose, const SecretKey& key);

// Says the host's part, a refusal included. `first` is what the caller has said so far; it begins with
// kSealedMagic.
boost::asio::awaitable<SealedAnswer> answer_sealed(boost::asio::ip::tcp::socket& socket, std::string first,
                                                   const std::optional<SecretKey>& key);

}  // namespace job
}  // namespace ddprun
