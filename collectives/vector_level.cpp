#include "collectives/vector_level.hpp"

namespace ddprun {
namespace {

VectorLevel find_vector_level() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
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

}  // namespace ddprun
