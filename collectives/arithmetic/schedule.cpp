#include "collectives/arithmetic/schedule.hpp"

#include <algorithm>

namespace ddprun {
inline namespace detail {

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

int exchange_steps(int world_size) noexcept { return world_size; }

int exchange_partner(int rank, int world_size, int step) noexcept {
    const bool power_of_two = (world_size & (world_size - 1)) == 0;
    return power_of_two ? rank ^ step : (step - rank + world_size) % world_size;
}

int dissemination_rounds(int world_size) noexcept {
    int rounds = 0;
    while ((1LL << rounds) < world_size) ++rounds;
    return rounds;
}

DisseminationRound dissemination_round(int rank, int world_size, int round) noexcept {
    const int distance = 1 << round;
    return {(rank - distance + world_size) % world_size, (rank + distance) % world_size, distance,
            std::min(distance, world_size - distance)};
}

TreePlace binomial_tree(int rank, int world_size, int root) {
    const int relative = (rank - root + world_size) % world_size;
    const auto absolute = [&](int place) { return (place + root) % world_size; };
    TreePlace place;
    long long span = 1;  // size of the subtree below this rank, if it were full
    while (span < world_size && (relative & span) == 0) span *= 2;
    if (relative != 0) place.parent = absolute(relative - static_cast<int>(span));
    for (long long step = span / 2; step > 0; step /= 2) {
        if (relative + step < world_size)
            place.children.push_back(absolute(relative + static_cast<int>(step)));
    }
    return place;
}

}  // namespace detail
}  // namespace ddprun
