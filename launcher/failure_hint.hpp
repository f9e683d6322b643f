// The hint of a failure report: what an end or a text that many users have met means, and how it is mended.
// Pure: one table.
#pragma once

#include <string>

#include "rendezvous/control_message.hpp"

namespace ddprun {

// One line for Failure::hint, out of the failure's signal, error message, traceback and last lines; empty if
// nothing is known of it. `interpreter` is LaunchOptions::interpreter, which a missing module is often about.
std::string failure_hint(const Failure& failure, const std::string& interpreter);

}  // namespace ddprun
