#include "collectives/arithmetic/tree_schedule.hpp"

#include <algorithm>

namespace ddprun {

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

}  // namespace ddprun
