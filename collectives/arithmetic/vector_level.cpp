#include "collectives/arithmetic/vector_level.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ddprun::inline detail {
namespace {

#if defined(__x86_64__)
// Not every compiler can ask for this by name. The system keeps its registers where it keeps those of AVX2.
bool has_f16c() noexcept {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

VectorLevel find_vector_level() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && has_f16c();
    const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    if (avx2) return avx512 ? VectorLevel::avx512 : VectorLevel::avx2;
#endif
    return VectorLevel::portable;
}

}  // namespace

VectorLevel vector_level() noexcept {
    static const VectorLevel level = find_vector_level();
    return level;
}

}  // namespace ddprun::inline detail
