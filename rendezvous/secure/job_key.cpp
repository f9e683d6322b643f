#include "rendezvous/secure/job_key.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

namespace ddprun::inline job {
namespace {

constexpr std::string_view kPurpose = "ddprun psk 1";
constexpr std::string_view kMeshPurpose = "ddprun mesh 1";
constexpr std::string_view kAround = " \t\r\n";

const unsigned char* data_of_text(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

SecretKey derived_key(std::string_view parent, std::initializer_list<std::string_view> words) {
    SecretKey key;
    crypto_generichash_blake2b_state state;
    crypto_generichash_blake2b_init(&state, data_of_text(parent), parent.size(), SecretKey::kBytes);
    for (const std::string_view word : words)
        crypto_generichash_blake2b_update(&state, data_of_text(word), word.size());
    crypto_generichash_blake2b_final(&state, key.data(), SecretKey::kBytes);
    sodium_memzero(&state, sizeof state);
    return key;
}

}  // namespace

std::variant<std::string, std::string_view> parse_secret(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kAround);
    if (begin == text.npos) return std::string_view("is empty");
    text = text.substr(begin, text.find_last_not_of(kAround) + 1 - begin);
    if (text.size() > kMaxSecretText) return std::string_view("is longer than 1024 characters");
    if (text.find_first_of("\r\n") != text.npos) return std::string_view("is more than one line of text");
    const bool is_text = std::none_of(text.begin(), text.end(), [](char letter) {
        return static_cast<unsigned char>(letter) < ' ' || letter == 0x7f;
    });
    if (!is_text) return std::string_view("has characters that are no text, a tab perhaps");
    if (text.size() < kMinSecretText) return std::string_view("is shorter than 22 characters");
    return std::string(text);
}

SecretKey job_key(std::string_view secret, std::string_view run_id) {
    // BLAKE2b's own key has 64 bytes at most.
    std::array<unsigned char, crypto_generichash_blake2b_KEYBYTES_MAX> digest{};
    if (secret.size() > digest.size()) {
        crypto_generichash_blake2b(digest.data(), digest.size(), data_of_text(secret), secret.size(), nullptr,
                                   0);
        secret = {reinterpret_cast<const char*>(digest.data()), digest.size()};
    }
    const SecretKey key = derived_key(secret, {kPurpose, run_id});
    sodium_memzero(digest.data(), digest.size());
    return key;
}

SecretKey mesh_key(const SecretKey& job, std::string_view job_id, int round) {
    const auto number = static_cast<std::uint32_t>(round);
    std::array<char, sizeof(number)> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(number >> (8 * i));
    return derived_key({reinterpret_cast<const char*>(job.data()), SecretKey::kBytes},
                       {kMeshPurpose, job_id, {bytes.data(), bytes.size()}});
}

std::string make_secret_text() { return hex_of(SecretKey::fresh()); }

}  // namespace ddprun::inline job
