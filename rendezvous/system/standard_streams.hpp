// The numbers 0 to 2. A program that was started without one of its streams would get it for the first file or socket that
// it opens, and what it prints would land there.
#pragma once

namespace ddprun::inline base {

// Opens /dev/null where a stream is missing; children inherit it. The first thing that a program's main does.
void open_missing_streams() noexcept;

}  // namespace ddprun::inline base
