// Architecture is a processor that ddprun runs on: what differs between them is in tables of both. Pure.
#pragma once

namespace ddprun {
inline namespace launch {

enum class Architecture { x86_64, aarch64 };

#if defined(__aarch64__)
inline constexpr Architecture kOwnArchitecture = Architecture::aarch64;
#else
inline constexpr Architecture kOwnArchitecture = Architecture::x86_64;
#endif

}  // namespace launch
}  // namespace ddprun
