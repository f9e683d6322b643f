#include "collectives/arithmetic/ring_schedule.hpp"

#include <algorithm>

namespace ddprun {

Range chunk_range(std::size_t count, int parts, int index) {
    const auto p = static_cast<std::size_t>(parts);
    const auto i = static_cast<std::size_t>(index);
    const std::size_t base = count / p;
    const std::size_t larger = count % p;
    return {i * base + std::min(i, larger), base + (i < larger ? 1 : 0)};
}

RingSchedule RingSchedule::all_reduce(int rank, int world_size) {
    return {world_size, rank, 2 * (world_size - 1), world_size - 1};
}

RingSchedule RingSchedule::reduce_scatter(int rank, int world_size) {
    return {world_size, rank - 1, world_size - 1, world_size - 1};
}

RingSchedule RingSchedule::all_gather(int rank, int world_size) {
    return {world_size, rank, world_size - 1, 0};
}

int RingSchedule::sends(int step) const noexcept {
    const int chunk = (first_ - step) % world_size_;
    return chunk < 0 ? chunk + world_size_ : chunk;
}

}  // namespace ddprun
