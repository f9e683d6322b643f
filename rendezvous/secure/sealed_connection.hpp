// SealedCall and answer_sealed_call() are the first words between two ends with a key; SealedRecords are what
// follows.
//
//     -> "DDPS", then 'a' (an agent) or 's' (its workers' way to the store): the prologue; 48 bytes of NNpsk0
//     <- 48 bytes; or "nk" and the end: no key is known here; or "wk" and the end: the key is another one
//     then both send records: u16 length, little endian, 16..65535 | that many bytes
//
// Nothing of it says what the job is. A caller that is turned away learns only whether a key is asked for.
// All functions are pure but for call_sealed() and answer_sealed(), which say the first words over a socket.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

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

inline constexpr std::size_t kNoisePointBytes = 32;
inline constexpr std::size_t kNoiseTagBytes = 16;
// kNoiseHandshakeBytes: a handshake message without a payload.
inline constexpr std::size_t kNoiseHandshakeBytes = kNoisePointBytes + kNoiseTagBytes;

// NoiseCipher has one direction: ChaCha20-Poly1305 with a counter. A bit that flips, and a message that is
// left out, repeated or moved, is noticed.
class NoiseCipher {
  public:
    explicit NoiseCipher(const SecretKey& key) : key_(key) {}

    // Appends the text, sealed, and its tag to `into`. `associated` is proven along with it, not sent.
    void encrypt(std::string_view plain, std::string_view associated, std::string& into);
    // Appends the text to `into`. False: `sealed` is not what was encrypted with this key at this place;
    // `into` is as it was.
    [[nodiscard]] bool decrypt(std::string_view sealed, std::string_view associated, std::string& into);

  private:
    std::array<unsigned char, 12> next_nonce();

    SecretKey key_;
    std::uint64_t count_ = 0;
};

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

// --- records

inline constexpr std::size_t kMaxSealedRecord = 65'535;
inline constexpr std::size_t kMaxRecordText = kMaxSealedRecord - kNoiseTagBytes;
inline constexpr std::size_t kRecordHeaderBytes = 2;

// SealedRecords seals and opens what flows once both sides have proven their key. The records are numbered by
// their order alone; each is a text and its tag, ChaCha20-Poly1305. A record that was changed, left out,
// repeated or moved ends the connection: there is no way back. Used by the connection's owner, on its thread.
class SealedRecords {
  public:
    explicit SealedRecords(const NoiseKeys& keys) : send_(keys.send), receive_(keys.receive) {}

    // Seals the text in as many records as it needs.
    std::string seal(std::string_view plain);

    // Opens what is whole of the bytes that have arrived; the rest, one record at most, is kept for the next
    // call. After an error (Errc::protocol_violation) every call fails with it.
    boost::system::result<std::string> open(std::string_view bytes);

    // Counts the memory for a record that has not arrived as a whole; 0 between two records.
    std::size_t buffered() const { return unfinished_.capacity() > kInPlace ? unfinished_.capacity() : 0; }

  private:
    static constexpr std::size_t kInPlace = 15;  // a short text takes no memory of its own

    NoiseCipher send_;
    NoiseCipher receive_;
    std::string unfinished_;
    bool is_broken_ = false;
};

}  // namespace job
}  // namespace ddprun
