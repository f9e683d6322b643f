// How the bytes of a reduction are shared out among the ranks of a host. Pure.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/shm/shm_layout.hpp"

namespace ddprun {

struct ShmPiece {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// Slices begin at multiples of it, so that no two ranks write one line.
inline constexpr std::size_t kSliceUnit = kShmLine;

constexpr std::size_t divided_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }
constexpr std::size_t line_up(std::size_t bytes) { return divided_up(bytes, kSliceUnit) * kSliceUnit; }

// The slice of `size` bytes that `rank` reduces; all together cover them once. The last ones may be empty.
constexpr ShmPiece shm_slice(std::size_t size, int rank, int ranks) {
    const std::size_t each = line_up(divided_up(size, static_cast<std::size_t>(ranks)));
    const std::size_t begin = std::min(size, static_cast<std::size_t>(rank) * each);
    return {begin, std::min(each, size - begin)};
}

}  // namespace ddprun
