#include "rendezvous/secure/secret_key.hpp"

#include <sodium.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {

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

void wipe(std::string& text) {
    sodium_memzero(text.data(), text.size());
    text.clear();
}

}  // namespace ddprun
