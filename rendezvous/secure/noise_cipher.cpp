#include "rendezvous/secure/noise_cipher.hpp"

#include <sodium.h>

#include <limits>

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace job {

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

}  // namespace job
}  // namespace ddprun
