// SplitMix64: a small generator of random numbers, the same bits on every machine and with every library.
//
// Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014. Written out
// because the distributions of the standard library differ between implementations. Not for secrets.
#pragma once

#include <cstdint>

namespace ddprun::inline app {

class SplitMix64 {
  public:
    explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    // 0 … limit - 1, limit > 0. For limits far below 2^64, where the reduction's bias is nothing.
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }

    // Evenly from [-limit, limit), from the 24 bits that a float holds exactly.
    float symmetric(float limit) {
        const auto bits = static_cast<float>(next() >> 40);
        return (bits * 0x1p-23f - 1.0f) * limit;
    }

  private:
    std::uint64_t state_;
};

}  // namespace ddprun::inline app
