// SecretKey is 32 bytes that nobody else may know, wiped when they go. Pure but for fresh(), which asks the
// system's random numbers. Copied freely; what is moved leaves none behind. Any thread.
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
    // Takes the first bytes of a text, which has at least so many.
    explicit SecretKey(std::string_view bytes);
    ~SecretKey();
    SecretKey(const SecretKey&) = default;
    SecretKey& operator=(const SecretKey&) = default;
    SecretKey(SecretKey&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    SecretKey& operator=(SecretKey&& other) noexcept {
        bytes_ = std::exchange(other.bytes_, {});
        return *this;
    }

    // Makes one that was never used before. Throws if the system has no random numbers.
    static SecretKey fresh();

    unsigned char* data() { return bytes_.data(); }
    const unsigned char* data() const { return bytes_.data(); }

    friend bool operator==(const SecretKey& left, const SecretKey& right);

  private:
    std::array<unsigned char, kBytes> bytes_{};
};

// These write 64 hexadecimal digits, and read them; nothing for any other text.
std::string hex_of(const SecretKey& key);
std::optional<SecretKey> parse_secret_key(std::string_view hex);

// Overwrites what the text holds, so that neither memory that is used again nor a core file has it, and
// empties it.
void wipe(std::string& text);

}  // namespace base
}  // namespace ddprun
