#include "rendezvous/secure/noise_cipher.hpp"
#include "rendezvous/secure/noise_handshake.hpp"

#include "tests/rendezvous/secure/bytes_of_hex.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

// Of the published vectors (cacophony), the one of Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b.
struct NoiseMessage {
    std::string_view payload;
    std::string_view bytes;
};
constexpr std::string_view kPrologue = "4a6f686e2047616c74";
constexpr std::string_view kPsk = "54686973206973206d7920417573747269616e20706572737065637469766521";
constexpr std::string_view kCallersEphemeral =
    "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
constexpr std::string_view kRespondersEphemeral =
    "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
constexpr std::string_view kHandshake =
    "ed5e9692d0ab507b6c2beec3f584fd5b127817a9d20b26cd50aa72c507260fa31aa7d88dd3723316338af37ce0b4cfb2923aeb84"
    "8bb"
    "f2b934911306f01ffc963";
constexpr NoiseMessage kFirst = {"4c756477696720766f6e204d69736573",
                                 "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944ed63df2f5a1"
                                 "2aee1185ee9c50305f2ecf12421dcb53c"
                                 "047a63b784cf7c54a105"};
constexpr NoiseMessage kAnswer = {"4d757272617920526f746862617264",
                                  "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088430e0fe7d5c0"
                                  "c9b92f7478716c8852f1b4f389edb75e3e"
                                  "be546fafafd5b6f0f7"};
// The caller's and the responder's in turn.
constexpr NoiseMessage kLater[] = {
    {"462e20412e20486179656b", "0fe04b26dcfbb69f8a6a94c61f1a26ef88769218d32f5d17c068a6"},
    {"4361726c204d656e676572", "2239e0c540c01f09eb1f4cc5258fd5acfefff18a5a3773f21b7bfe"},
    {"4a65616e2d426170746973746520536179",
     "f216cb03d30fb8af1e561fe02a07552d09b416e27a75e62c77d193718b0bdaae9f"},
    {"457567656e2042f6686d20766f6e2042617765726b",
     "6e8baf98b944184dd7dc5ef14d8108cbeca626de118a5460f3308e294d61e17238bce29bd9"}};

SecretKey key_of_hex(std::string_view hex) { return SecretKey(bytes_of_hex(hex)); }

std::string transcript_hex(const NoiseKeys& keys) {
    return hex_of_bytes({reinterpret_cast<const char*>(keys.handshake.data()), keys.handshake.size()});
}

}  // namespace

TEST_CASE("the handshake is the published one, byte for byte", "[noise]") {
    NoiseCaller caller(key_of_hex(kPsk), bytes_of_hex(kPrologue), key_of_hex(kCallersEphemeral));
    NoiseResponder responder(key_of_hex(kPsk), bytes_of_hex(kPrologue));

    const std::string first = caller.first(bytes_of_hex(kFirst.payload));
    CHECK(hex_of_bytes(first) == kFirst.bytes);
    CHECK(hex_of_bytes(responder.take(first).value()) == kFirst.payload);

    const auto answer = responder.answer(key_of_hex(kRespondersEphemeral), bytes_of_hex(kAnswer.payload));
    REQUIRE(answer);
    CHECK(hex_of_bytes(answer->message) == kAnswer.bytes);
    std::string payload;
    const auto keys = caller.finish(answer->message, &payload);
    REQUIRE(keys);
    CHECK(hex_of_bytes(payload) == kAnswer.payload);
    CHECK(transcript_hex(*keys) == kHandshake);
    CHECK(transcript_hex(answer->keys) == kHandshake);

    NoiseCipher to_responder(keys->send), from_caller(answer->keys.receive);
    NoiseCipher to_caller(answer->keys.send), from_responder(keys->receive);
    bool is_callers = true;
    for (const NoiseMessage& message : kLater) {
        std::string sealed, plain;
        (is_callers ? to_responder : to_caller).encrypt(bytes_of_hex(message.payload), {}, sealed);
        CHECK(hex_of_bytes(sealed) == message.bytes);
        CHECK((is_callers ? from_caller : from_responder).decrypt(sealed, {}, plain));
        CHECK(hex_of_bytes(plain) == message.payload);
        is_callers = !is_callers;
    }
}

TEST_CASE("a handshake without payloads has 48 bytes each way", "[noise]") {
    const SecretKey psk = SecretKey::fresh();
    NoiseCaller caller(psk, "p", SecretKey::fresh());
    NoiseResponder responder(psk, "p");
    const std::string first = caller.first();
    CHECK(first.size() == kNoiseHandshakeBytes);
    REQUIRE(responder.take(first));
    const auto answer = responder.answer(SecretKey::fresh());
    REQUIRE(answer);
    CHECK(answer->message.size() == kNoiseHandshakeBytes);
    const auto keys = caller.finish(answer->message);
    REQUIRE(keys);
    CHECK(keys->send == answer->keys.receive);
    CHECK(keys->receive == answer->keys.send);
    CHECK_FALSE(keys->send == keys->receive);
}

TEST_CASE("who has another key, or says something else, is not let in", "[noise]") {
    const SecretKey psk = SecretKey::fresh();
    std::string first = NoiseCaller(psk, "p", SecretKey::fresh()).first();
    CHECK_FALSE(NoiseResponder(SecretKey::fresh(), "p").take(first));
    CHECK_FALSE(NoiseResponder(psk, "q").take(first));
    for (std::size_t size = 0; size < first.size(); ++size) {
        INFO(size << " bytes of it");
        CHECK_FALSE(NoiseResponder(psk, "p").take(first.substr(0, size)));
    }
    for (std::size_t bit = 0; bit < first.size() * 8; ++bit) {
        INFO("bit " << bit);
        std::string changed = first;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
        CHECK_FALSE(NoiseResponder(psk, "p").take(changed));
    }
}

TEST_CASE("an answer that was changed, cut or made for another caller is none", "[noise]") {
    const SecretKey psk = SecretKey::fresh();
    const NoiseCaller begun(psk, "p", SecretKey::fresh());
    NoiseCaller caller = begun;
    NoiseResponder responder(psk, "p");
    REQUIRE(responder.take(caller.first()));
    const std::string answer = responder.answer(SecretKey::fresh())->message;
    const auto takes = [&begun](const std::string& bytes) {
        NoiseCaller again = begun;
        again.first();
        return again.finish(bytes).has_value();
    };
    REQUIRE(takes(answer));
    for (std::size_t size = 0; size < answer.size(); ++size) CHECK_FALSE(takes(answer.substr(0, size)));
    for (std::size_t bit = 0; bit < answer.size() * 8; ++bit) {
        // The curve has no use for this bit, but the key has.
        INFO("bit " << bit);
        std::string changed = answer;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
        CHECK_FALSE(takes(changed));
    }
    NoiseCaller other(psk, "p", SecretKey::fresh());
    other.first();
    CHECK_FALSE(other.finish(answer));
}

TEST_CASE("a first message that is played again opens a connection nobody can speak on", "[noise]") {
    const SecretKey psk = SecretKey::fresh();
    NoiseCaller caller(psk, "p", SecretKey::fresh());
    const std::string first = caller.first();
    NoiseResponder once(psk, "p"), again(psk, "p");
    REQUIRE(once.take(first));
    REQUIRE(again.take(first));
    const auto real = once.answer(SecretKey::fresh());
    const auto replayed = again.answer(SecretKey::fresh());
    CHECK(real->message != replayed->message);
    // What was heard on the real connection says nothing on the second one.
    std::string heard, plain;
    const auto keys = caller.finish(real->message);
    NoiseCipher(keys->send).encrypt("an order", {}, heard);
    CHECK(NoiseCipher(real->keys.receive).decrypt(heard, {}, plain));
    CHECK_FALSE(NoiseCipher(replayed->keys.receive).decrypt(heard, {}, plain));
}

TEST_CASE("a point whose secret everybody knows is refused", "[noise]") {
    const SecretKey psk = SecretKey::fresh();
    // One who has the key, and sends the point 0.
    NoiseTranscript transcript(psk, "p");
    const std::string zero(kNoisePointBytes, '\0');
    transcript.mix_point(zero);
    NoiseResponder responder(psk, "p");
    REQUIRE(responder.take(zero + transcript.seal({})));
    CHECK_FALSE(responder.answer(SecretKey::fresh()));
}
