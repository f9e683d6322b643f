// SecretKey is 32 secret bytes, wiped when the object is destroyed. Pure but for fresh(), which asks the
// system for random numbers. Copied freely; a move leaves zeros behind. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {
inline namespace base {

class SecretKey {
  public:
    static constexpr std::size_t kBytes = 32;

    SecretKey() = default;
    // Takes the first 32 bytes of the text, which must have at least as many.
    explicit SecretKey(std::string_view bytes);
    ~SecretKey();
    SecretKey(const SecretKey&) = default;
    SecretKey& operator=(const SecretKey&) = default;
    SecretKey(SecretKey&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    SecretKey& operator=(SecretKey&& other) noexcept {
        bytes_ = std::exchange(other.bytes_, {});
        return *this;
    }

    // Makes a new random key. Throws if the system has no random numbers.
    static SecretKey fresh();

    unsigned char* data() { return bytes_.data(); }
    const unsigned char* data() const { return bytes_.data(); }

    friend bool operator==(const SecretKey& left, const SecretKey& right);

  private:
    std::array<unsigned char, kBytes> bytes_{};
};

// hex_of() writes a key as 64 hexadecimal digits, and parse_secret_key() reads them; nothing for any other
// text.
std::string hex_of(const SecretKey& key);
std::optional<SecretKey> parse_secret_key(std::string_view hex);

// Overwrites the text and empties it, so that neither reused memory nor a core file shows what it held.
void wipe(std::string& text);

}  // namespace base
}  // namespace ddprun
