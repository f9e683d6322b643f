// What the tests do less of where a sanitizer makes them several times slower.
#pragma once

namespace ddprun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// Of a property test: all as built for users; a sanitizer looks at the code that runs, not at what comes of
// it.
constexpr unsigned seed_count(unsigned all) { return kIsSanitized ? (all + 9) / 10 : all; }

}  // namespace ddprun
