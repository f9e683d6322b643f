// Copies between a rank's own memory and the memory it shares with others. Pure.
#pragma once

#include <cstddef>

#include "collectives/call/task.hpp"

namespace ddprun::inline detail {

// How a rank writes what another one reads next. `plain` stores first fetch the lines from the caches of
// those who read them last; `non_temporal` ones do not, but go to memory. Which is faster depends on the
// processor by a factor of up to ten, both ways, so it is measured (probe_store_type).
enum class StoreType { plain, non_temporal };

// Less than this is always written plainly.
inline constexpr std::size_t kLeastNonTemporal = std::size_t{2} << 10;

// As copy_bytes(), for `out` in shared memory: complete for others before whatever is stored to memory next.
void copy_shared(StoreType type, void* out, const void* in, std::size_t bytes);

}  // namespace ddprun::inline detail
