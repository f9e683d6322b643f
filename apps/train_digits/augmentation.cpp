#include "apps/train_digits/augmentation.hpp"

#include <algorithm>

#include "apps/train_digits/split_mix.hpp"

namespace ddprun::inline app {
namespace {

std::size_t pixel(int row, int column) {
    return static_cast<std::size_t>(row) * kImageSide + static_cast<std::size_t>(column);
}

}  // namespace

void augment(std::span<const float, kImagePixels> image, std::uint64_t seed, int epoch, std::size_t index,
             std::span<float, kImagePixels> seen) {
    // Each of the three is mixed in by its own draw, so that no sum of them can coincide.
    SplitMix64 of_seed(seed);
    SplitMix64 of_epoch(of_seed.next() ^ static_cast<std::uint64_t>(epoch));
    SplitMix64 random(of_epoch.next() ^ index);
    if (random.below(2) == 0) {
        std::copy(image.begin(), image.end(), seen.begin());
        return;
    }
    const int right = static_cast<int>(random.below(3)) - 1;
    const int down = static_cast<int>(random.below(3)) - 1;
    for (int row = 0; row < kImageSide; ++row) {
        for (int column = 0; column < kImageSide; ++column) {
            const int from_row = row - down;
            const int from_column = column - right;
            const bool inside =
                from_row >= 0 && from_row < kImageSide && from_column >= 0 && from_column < kImageSide;
            seen[pixel(row, column)] = inside ? image[pixel(from_row, from_column)] : 0.0f;
        }
    }
}

}  // namespace ddprun::inline app
