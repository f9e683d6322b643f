// Vector level: the widest vector instructions of this processor, chosen at run time. Pure.
//
// The code is built for the oldest processor of its architecture; loops that gain from more are handed to
// with_widest_vectors(), which has them compiled for each level. The arithmetic is the same at each: no level
// joins a multiplication and an addition.
#pragma once

namespace ddprun::inline detail {

enum class VectorLevel { portable, avx2, avx512 };

VectorLevel vector_level() noexcept;

#if defined(__x86_64__)

// With F16C: conversions of f16 by the processor.
template <class Body>
[[gnu::target("avx2,f16c")]] void with_avx2(Body body) {
    body();
}

template <class Body>
[[gnu::target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]] void with_avx512(Body body) {
    body();
}

// Runs body(), which must be a lambda marked always_inline.
template <class Body>
void with_widest_vectors(Body body) {
    switch (vector_level()) {
        case VectorLevel::portable: return body();
        case VectorLevel::avx2: return with_avx2(body);
        case VectorLevel::avx512: return with_avx512(body);
    }
}

#else

template <class Body>
void with_widest_vectors(Body body) {
    body();
}

#endif

}  // namespace ddprun::inline detail
