// NoiseCipher has one direction: ChaCha20-Poly1305 with a counter. A bit that flips, and a message that is
// left out, repeated or moved, is noticed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::size_t kNoiseTagBytes = 16;

// Returns the bytes as libsodium takes them.
inline const unsigned char* data_of(std::string_view bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

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

}  // namespace job
}  // namespace ddprun
