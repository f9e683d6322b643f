// Fingerprint: FNV-1a, 64 bits, over bytes. Tells whether two ranks hold the same bits and whether a model
// file is whole. Against accidents only: anybody can make two texts with the same value.
//
// Source: G. Fowler, L. C. Noll, K.-P. Vo, "The FNV Non-Cryptographic Hash Algorithm".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun::inline app {

class Fingerprint {
  public:
    void add(std::span<const std::byte> bytes);

    // The object representation of the values, in this machine's byte order.
    template <class T>
    void add_values(std::span<const T> values) {
        add(std::as_bytes(values));
    }

    std::uint64_t value() const { return value_; }

  private:
    std::uint64_t value_ = 0xcbf29ce484222325;  // FNV's offset basis
};

template <class T>
std::uint64_t fingerprint_of(std::span<const T> values) {
    Fingerprint fingerprint;
    fingerprint.add_values(values);
    return fingerprint.value();
}

// 16 hexadecimal digits.
std::string hexadecimal(std::uint64_t value);

}  // namespace ddprun::inline app
