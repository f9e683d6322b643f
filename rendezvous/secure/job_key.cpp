#include "rendezvous/secure/job_key.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

constexpr std::string_view kPurpose = "ddprun psk 1";
constexpr std::string_view kAround = " \t\r\n";

const unsigned char* data_of_text(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::variant<std::string, std::string_view> parse_secret(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kAround);
    if (begin == text.npos) return std::string_view("is empty");
    text = text.substr(begin, text.find_last_not_of(kAround) + 1 - begin);
    if (text.size() > kMaxSecretText) return std::string_view("is longer than 1024 characters");
    const bool is_one_line = std::none_of(text.begin(), text.end(), [](char letter) {
        return static_cast<unsigned char>(letter) < ' ' || letter == 0x7f;
    });
    if (!is_one_line) return std::string_view("is more than one line of text");
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
    SecretKey key;
    crypto_generichash_blake2b_state state;
    crypto_generichash_blake2b_init(&state, data_of_text(secret), secret.size(), SecretKey::kBytes);
    crypto_generichash_blake2b_update(&state, data_of_text(kPurpose), kPurpose.size());
    crypto_generichash_blake2b_update(&state, data_of_text(run_id), run_id.size());
    crypto_generichash_blake2b_final(&state, key.data(), SecretKey::kBytes);
    sodium_memzero(&state, sizeof state);
    sodium_memzero(digest.data(), digest.size());
    return key;
}

std::string make_secret_text() {
    const SecretKey random = SecretKey::fresh();
    std::string text(2 * SecretKey::kBytes + 1, '\0');
    sodium_bin2hex(text.data(), text.size(), random.data(), SecretKey::kBytes);
    text.pop_back();  // the end of a C string
    return text;
}

}  // namespace ddprun
