// The launcher's report of why a job ended: the first failure, in a few lines, the same on every node. Pure.
#pragma once

#include <string>

#include "rendezvous/control_message.hpp"

namespace ddprun {

// Lines without "ddprun: " in front (the Console's part) and without a newline at the end: what happened, and
// the code that the launcher exits with. `entry_name` is what the user calls the program
// (Program::entry_name).
std::string failure_report(const std::string& entry_name, const Failure& first_failure, int exit_code);

}  // namespace ddprun
