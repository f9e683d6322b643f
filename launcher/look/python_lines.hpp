// line_at() tells the line of an instruction by the tables of code objects, in the three forms that CPython
// has had. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "launcher/look/python_layout.hpp"

namespace ddprun {
inline namespace launch {

// Returns the line of the instruction that is so many bytes behind the first one (negative: before it), in a
// function that begins at `first_line`. 0: it has none. `first_line` if the table ends before it.
int line_at(PythonLayout::LineTable form, std::span<const std::byte> table, int first_line,
            std::int64_t instruction);

}  // namespace launch
}  // namespace ddprun
