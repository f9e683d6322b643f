#include "rendezvous/secure/sealed_greeting.hpp"

#include "rendezvous/system/check.hpp"

namespace ddprun::inline job {
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

}  // namespace ddprun::inline job
