// How many seeds a property test tries.
#pragma once

namespace ddprun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// All of them as built for users; a sanitizer, several times slower, looks at the code that they run, not at what comes of it.
constexpr unsigned seed_count(unsigned all) { return kIsSanitized ? (all + 9) / 10 : all; }

}  // namespace ddprun
