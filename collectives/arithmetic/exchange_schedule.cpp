#include "collectives/arithmetic/exchange_schedule.hpp"

namespace ddprun {

int exchange_steps(int world_size) noexcept { return world_size; }

int exchange_partner(int rank, int world_size, int step) noexcept {
    const bool power_of_two = (world_size & (world_size - 1)) == 0;
    return power_of_two ? rank ^ step : (step - rank + world_size) % world_size;
}

}  // namespace ddprun
