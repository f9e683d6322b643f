// place_of() finds the call of a stack that its user knows, and the functions beside it the operation in
// which a rank meets others. Pure; the tables are in the source.
//
// All stacks have their innermost frame first. Only frames inside of the user's innermost one are looked at:
// what called the user's program (torchrun's own modules, for example) tells nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/look/frame.hpp"
#include "launcher/look/waits/wait_kind.hpp"

namespace ddprun {
inline namespace launch {

// Says whether the frame is of none of these: the standard library, installed packages, the system's
// libraries, PyTorch, ddprun.
bool is_users(const Frame& frame);

// Returns the user's innermost frame; where there is none, the innermost; nullptr for an empty stack.
const Frame* place_of(const std::vector<Frame>& frames);

// Returns the wait with the kind that the stack tells (refined_wait()).
Wait refined_by_stack(const Wait& wait, const std::vector<Frame>& frames);

// Returns the function that the user called to meet other ranks: "all_reduce"; empty where the frames do not
// have its name.
std::string operation_of(const std::vector<Frame>& frames);

// Says whether the ranks are still about to find each other (init_process_group, MPI_Init).
bool is_joining(const std::vector<Frame>& frames);

// Says whether the operation is between two ranks, whichever library has it.
bool is_point_to_point(std::string_view operation);

}  // namespace launch
}  // namespace ddprun
