#include "rendezvous/etcd/base64.hpp"

#include <cstdint>

namespace ddprun::inline job {
namespace {

constexpr std::string_view kBase64Letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kGroup = 3;    // bytes …
constexpr std::size_t kLetters = 4;  // … and the letters that stand for them

}  // namespace

std::string to_base64(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + kGroup - 1) / kGroup * kLetters);
    for (std::size_t at = 0; at < bytes.size(); at += kGroup) {
        const std::string_view group = bytes.substr(at, kGroup);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < kGroup; ++i)
            bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
        for (std::size_t i = 0; i < kLetters; ++i)
            text += i <= group.size() ? kBase64Letters[bits >> (18 - 6 * i) & 63U] : '=';
    }
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    if (text.size() % kLetters != 0) return std::nullopt;
    std::string bytes;
    bytes.reserve(text.size() / kLetters * kGroup);
    for (std::size_t at = 0; at < text.size(); at += kLetters) {
        std::string_view letters = text.substr(at, kLetters);
        const bool is_last = at + kLetters == text.size();
        while (is_last && letters.size() > 2 && letters.back() == '=') letters.remove_suffix(1);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < kLetters; ++i) {
            const std::size_t digit = i < letters.size() ? kBase64Letters.find(letters[i]) : 0;
            if (digit == std::string_view::npos) return std::nullopt;
            bits = bits << 6 | static_cast<std::uint32_t>(digit);
        }
        for (std::size_t i = 0; i + 1 < letters.size(); ++i)
            bytes += static_cast<char>(bits >> (16 - 8 * i) & 0xFFU);
    }
    if (to_base64(bytes) != text) return std::nullopt;  // bits that stand for nothing
    return bytes;
}

}  // namespace ddprun::inline job
