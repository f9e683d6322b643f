// Digest: tells apart texts that need not be sent whole (FNV-1a, 64 bits). No protection against somebody who wants
// two to be taken for one. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun::inline job {

class Digest {
  public:
    void add(std::string_view bytes) {
        for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * kPrime;
    }
    std::uint64_t value() const { return value_; }

  private:
    static constexpr std::uint64_t kPrime = 1099511628211ULL;
    std::uint64_t value_ = 14695981039346656037ULL;
};

}  // namespace ddprun::inline job
