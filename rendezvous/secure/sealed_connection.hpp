// A connection between two who have a key: its first words, and the records that flow behind them.
//
//     -> "DDPS", 'a' (an agent) or 's' (its workers' way to the store), 48 bytes of NNpsk0; those five are its prologue
//     <- 48 bytes, then both send records: u16 length, little endian, 16..65535 | that many bytes
//     or "nk", end: no key is known here        or "wk", end: it is another one
//
// Nothing of it says what the job is. Who is turned away learns whether a key is asked for, and nothing else. All of it is
// pure but for call_sealed() and answer_sealed(), which say the first words over a socket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
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

// SealedCall is the caller's part.
class SealedCall {
  public:
    // `ephemeral`: fresh.
    SealedCall(SealedPurpose purpose, const SecretKey& key, const SecretKey& ephemeral);

    const std::string& bytes() const { return bytes_; }

    struct Result {
        Proof proof = Proof::none;
        std::optional<NoiseKeys> keys;  // if it was given
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
    std::optional<NoiseKeys> keys;  // if it was given
    SealedPurpose purpose = SealedPurpose::agent;
};

// Makes the host's part. `call`: kSealedCallBytes that begin with kSealedMagic; `fresh` is asked for an ephemeral key only where the
// caller has proven itself.
SealedAnswer answer_sealed_call(std::string_view call, const std::optional<SecretKey>& key,
                                const std::function<SecretKey()>& fresh);

// --- the first words over a socket, on the thread of its executor. The connection stays open; who owns the socket ends it where
// no proof was given.

// The other side has so long for its part of it.
inline constexpr std::chrono::seconds kSealTimeout{5};

// Says the caller's part: Proof::none also when the connection breaks or the time is over.
boost::asio::awaitable<SealedCall::Result> call_sealed(boost::asio::ip::tcp::socket& socket,
                                                       SealedPurpose purpose, const SecretKey& key);

// Says the host's part. `first`: what the caller has said so far, which begins with kSealedMagic. A refusal was sent by then.
boost::asio::awaitable<SealedAnswer> answer_sealed(boost::asio::ip::tcp::socket& socket, std::string first,
                                                   const std::optional<SecretKey>& key);

// --- records

inline constexpr std::size_t kMaxSealedRecord = 65'535;
inline constexpr std::size_t kMaxRecordText = kMaxSealedRecord - kNoiseTagBytes;
inline constexpr std::size_t kRecordHeaderBytes = 2;

// SealedRecords seals and opens what flows once both sides have proven that they have the key. The records are numbered by
// nothing but their order; each is a text and its tag, ChaCha20-Poly1305. One that was changed, left out, repeated or moved
// ends the connection: there is no way back. For who owns the connection, on its thread.
class SealedRecords {
  public:
    explicit SealedRecords(const NoiseKeys& keys) : send_(keys.send), receive_(keys.receive) {}

    // Makes as many records as the text needs; none for none.
    std::string seal(std::string_view plain);

    // Opens what is whole of the bytes that have arrived; the rest, one record at most, is kept for the next call. An error
    // (Errc::protocol_violation) stays one.
    boost::system::result<std::string> open(std::string_view bytes);

    // Counts what is held of a record that has not arrived as a whole: nothing between two.
    std::size_t buffered() const { return unfinished_.capacity() > kInPlace ? unfinished_.capacity() : 0; }

  private:
    static constexpr std::size_t kInPlace = 15;  // a short text takes no memory of its own

    NoiseCipher send_;
    NoiseCipher receive_;
    std::string unfinished_;
    bool is_broken_ = false;
};

}  // namespace ddprun::inline job
