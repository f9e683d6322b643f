// StoreType and copy_shared: copies from a rank's own memory to the memory that it shares with others. Pure.
#pragma once

#include <cstddef>

namespace ddprun {
inline namespace detail {

// StoreType: how a rank writes what another rank reads next. `plain` stores first fetch the lines from the
// caches of the ranks that read them last; `non_temporal` stores go to memory instead. Which is faster
// depends on the processor, by a factor of up to ten both ways, and is therefore measured (probe_store_type).
enum class StoreType { plain, non_temporal };

// kLeastNonTemporal: fewer bytes are always written by plain stores.
inline constexpr std::size_t kLeastNonTemporal = std::size_t{2} << 10;

// Copies as copy_bytes() does, to `out` in shared memory. Other ranks see the copy complete before whatever
// is stored to memory next.
void copy_shared(StoreType type, void* out, const void* in, std::size_t bytes);

}  // namespace detail
}  // namespace ddprun
