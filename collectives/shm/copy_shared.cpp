#include "collectives/shm/copy_shared.hpp"

#include <cstdint>

#include "collectives/call/task.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ddprun {
inline namespace detail {
namespace {

#if defined(__x86_64__)
void copy_past_the_caches(std::byte* out, const std::byte* in, std::size_t bytes) {
    constexpr std::size_t kVector = sizeof(__m128i);
    constexpr std::size_t kCacheLine = 64;
    // Whole lines only: a part of one costs a memory access each.
    const std::size_t lead = (kCacheLine - reinterpret_cast<std::uintptr_t>(out) % kCacheLine) % kCacheLine;
    const std::size_t body = (bytes - lead) / kCacheLine * kCacheLine;
    std::memcpy(out, in, lead);
    for (std::size_t i = lead; i < lead + body; i += kVector) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
    std::memcpy(out + lead + body, in + lead + body, bytes - lead - body);
    _mm_sfence();
}
#else
// Not by aarch64's stnp, either: it is a hint, which cores in use treat as a plain store.
void copy_past_the_caches(std::byte* out, const std::byte* in, std::size_t bytes) {
    std::memcpy(out, in, bytes);
}
#endif

}  // namespace

void copy_shared(StoreType type, void* out, const void* in, std::size_t bytes) {
    if (type == StoreType::plain || bytes < kLeastNonTemporal) return copy_bytes(out, in, bytes);
    copy_past_the_caches(static_cast<std::byte*>(out), static_cast<const std::byte*>(in), bytes);
}

}  // namespace detail
}  // namespace ddprun
