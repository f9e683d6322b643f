#include "rendezvous/system/secret_key.hpp"

#include <sodium.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace base {

SecretKey::SecretKey(std::string_view bytes) {
    check(bytes.size() >= kBytes, "a key is shorter than a key");
    std::copy_n(bytes.begin(), kBytes, bytes_.begin());
}

SecretKey::~SecretKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

SecretKey SecretKey::fresh() {
    if (sodium_init() < 0) fail_errno(ENOSYS, "the system gives no random numbers for a key");
    SecretKey key;
    randombytes_buf(key.data(), kBytes);
    return key;
}

bool operator==(const SecretKey& left, const SecretKey& right) {
    return sodium_memcmp(left.data(), right.data(), SecretKey::kBytes) == 0;
}

std::string hex_of(const SecretKey& key) {
    std::string text(2 * SecretKey::kBytes + 1, '\0');
    sodium_bin2hex(text.data(), text.size(), key.data(), SecretKey::kBytes);
    text.pop_back();  // the end of a C string
    return text;
}

std::optional<SecretKey> parse_secret_key(std::string_view hex) {
    SecretKey key;
    std::size_t size = 0;
    const char* end = nullptr;
    if (hex.size() != 2 * SecretKey::kBytes ||
        sodium_hex2bin(key.data(), SecretKey::kBytes, hex.data(), hex.size(), nullptr, &size, &end) != 0 ||
        size != SecretKey::kBytes)
        return std::nullopt;
    return key;
}

void wipe(std::string& text) {
    sodium_memzero(text.data(), text.size());
    text.clear();
}

}  // namespace base
}  // namespace ddprun
