#include "rendezvous/secure/sealed_connection.hpp"

#include <sodium.h>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <limits>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace job {

namespace {

using Hash = NoiseTranscript::Hash;

// The name is shorter than a hash: then it is the first one, zeros behind it.
constexpr std::string_view kNoiseProtocol = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";
static_assert(kNoiseProtocol.size() <= std::tuple_size_v<Hash>);
constexpr std::size_t kBlake2bBlock = 128;

const unsigned char* data_of(std::string_view bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

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

std::array<unsigned char, 12> NoiseCipher::next_nonce() {
    check(count_ != std::numeric_limits<std::uint64_t>::max(), "a nonce would be used twice");
    std::array<unsigned char, 12> nonce{};
    for (std::size_t i = 0; i < sizeof count_; ++i)
        nonce[4 + i] = static_cast<unsigned char>(count_ >> (8 * i));
    ++count_;
    return nonce;
}

void NoiseCipher::encrypt(std::string_view plain, std::string_view associated, std::string& into) {
    const auto nonce = next_nonce();
    const std::size_t before = into.size();
    into.resize(before + plain.size() + kNoiseTagBytes);
    crypto_aead_chacha20poly1305_ietf_encrypt(reinterpret_cast<unsigned char*>(into.data()) + before, nullptr,
                                              data_of(plain), plain.size(), data_of(associated),
                                              associated.size(), nullptr, nonce.data(), key_.data());
}

bool NoiseCipher::decrypt(std::string_view sealed, std::string_view associated, std::string& into) {
    if (sealed.size() < kNoiseTagBytes) return false;
    const auto nonce = next_nonce();
    const std::size_t before = into.size();
    into.resize(before + sealed.size() - kNoiseTagBytes);
    const bool is_genuine =
        crypto_aead_chacha20poly1305_ietf_decrypt(
            reinterpret_cast<unsigned char*>(into.data()) + before, nullptr, nullptr, data_of(sealed),
            sealed.size(), data_of(associated), associated.size(), nonce.data(), key_.data()) == 0;
    if (!is_genuine) into.resize(before);
    return is_genuine;
}

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

namespace {

constexpr std::string_view kNoKey = "nk";
constexpr std::string_view kOtherKey = "wk";
static_assert(kNoKey.size() == kSealedRefusalBytes && kOtherKey.size() == kSealedRefusalBytes);

std::string prologue_of(SealedPurpose purpose) {
    return std::string(kSealedMagic) + static_cast<char>(purpose);
}

std::optional<SealedPurpose> purpose_of(std::string_view call) {
    for (const SealedPurpose purpose : {SealedPurpose::agent, SealedPurpose::store})
        if (call.starts_with(prologue_of(purpose))) return purpose;
    return std::nullopt;
}

}  // namespace

SealedCall::SealedCall(SealedPurpose purpose, const SecretKey& key, const SecretKey& ephemeral)
    : prologue_(prologue_of(purpose)),
      noise_(key, prologue_, ephemeral),
      bytes_(prologue_ + noise_.first()) {}

SealedCall::Result SealedCall::learn(std::string_view answer) {
    if (answer == kNoKey) return {Proof::no_key, std::nullopt};
    if (answer == kOtherKey) return {Proof::other_key, std::nullopt};
    if (answer.size() != kNoiseHandshakeBytes) return {};
    auto keys = noise_.finish(answer);
    if (!keys) return {};
    return {Proof::given, std::move(keys)};
}

SealedAnswer answer_sealed_call(std::string_view call, const std::optional<SecretKey>& key,
                                const std::function<SecretKey()>& fresh) {
    check(call.size() == kSealedCallBytes, "a sealed call is answered before it is whole");
    const auto purpose = purpose_of(call);
    if (!purpose) return {};
    if (!key) return {Proof::no_key, std::string(kNoKey), std::nullopt, *purpose};
    const std::string prologue = prologue_of(*purpose);
    NoiseResponder responder(*key, prologue);
    if (!responder.take(call.substr(prologue.size())))
        return {Proof::other_key, std::string(kOtherKey), std::nullopt, *purpose};
    auto answer = responder.answer(fresh());
    if (!answer) return {};
    return {Proof::given, std::move(answer->message), std::move(answer->keys), *purpose};
}

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Appends what comes until there are `size` bytes, the other side ends the connection, it breaks, or the time
// is over.
asio::awaitable<void> read_up_to(tcp::socket& socket, std::string& bytes, std::size_t size) {
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer deadline(socket.get_executor(), kSealTimeout);
    while (bytes.size() < size) {
        std::array<char, 64> piece{};
        boost::system::error_code error;
        const auto room = asio::buffer(piece, std::min(piece.size(), size - bytes.size()));
        auto read =
            co_await (socket.async_read_some(room, asio::redirect_error(asio::use_awaitable, error)) ||
                      deadline.async_wait(asio::use_awaitable));
        if (read.index() == 1 || error) co_return;
        bytes.append(piece.data(), std::get<0>(read));
    }
}

// It is a few bytes, for which a new connection has room.
asio::awaitable<void> write_greeting(tcp::socket& socket, const std::string& bytes) {
    boost::system::error_code ignored;  // A broken connection shows itself at the next read.
    co_await asio::async_write(socket, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace

asio::awaitable<SealedCall::Result> call_sealed(tcp::socket& socket, SealedPurpose purpose,
                                                const SecretKey& key) {
    SealedCall call(purpose, key, SecretKey::fresh());
    co_await write_greeting(socket, call.bytes());
    std::string answer;
    co_await read_up_to(socket, answer, kNoiseHandshakeBytes);
    co_return call.learn(answer);
}

asio::awaitable<SealedAnswer> answer_sealed(tcp::socket& socket, std::string first,
                                            const std::optional<SecretKey>& key) {
    co_await read_up_to(socket, first, kSealedCallBytes);
    // Nobody has more to say before the answer.
    if (first.size() != kSealedCallBytes) co_return SealedAnswer{};
    SealedAnswer answer = answer_sealed_call(first, key, SecretKey::fresh);
    co_await write_greeting(socket, answer.bytes);
    co_return answer;
}

namespace {

std::size_t record_length(std::string_view header) {
    return static_cast<unsigned char>(header[0]) |
           static_cast<std::size_t>(static_cast<unsigned char>(header[1])) << 8;
}

}  // namespace

std::string SealedRecords::seal(std::string_view plain) {
    std::string records;
    const std::size_t count = (plain.size() + kMaxRecordText - 1) / kMaxRecordText;
    records.reserve(plain.size() + count * (kRecordHeaderBytes + kNoiseTagBytes));
    while (!plain.empty()) {
        const std::string_view text = plain.substr(0, kMaxRecordText);
        const std::size_t length = text.size() + kNoiseTagBytes;
        records += static_cast<char>(length & 0xff);
        records += static_cast<char>(length >> 8);
        send_.encrypt(text, {}, records);
        plain.remove_prefix(text.size());
    }
    return records;
}

boost::system::result<std::string> SealedRecords::open(std::string_view bytes) {
    if (is_broken_) return Errc::protocol_violation;
    std::string joined;
    if (!unfinished_.empty()) {
        joined = std::move(unfinished_);
        unfinished_ = {};
        joined += bytes;
        bytes = joined;
    }
    std::string plain;
    while (bytes.size() >= kRecordHeaderBytes) {
        const std::size_t length = record_length(bytes);
        is_broken_ = length < kNoiseTagBytes;
        if (is_broken_) return Errc::protocol_violation;
        if (bytes.size() < kRecordHeaderBytes + length) break;
        is_broken_ = !receive_.decrypt(bytes.substr(kRecordHeaderBytes, length), {}, plain);
        if (is_broken_) return Errc::protocol_violation;
        bytes.remove_prefix(kRecordHeaderBytes + length);
    }
    unfinished_ = std::string(bytes);
    return plain;
}

}  // namespace job
}  // namespace ddprun
