// Signals that the launcher is sent have a meaning for its job: they end it, go on to all of its workers, make it stand still
// (Ctrl-Z), or say that the terminal has another size. One that nobody expects ends the job as SIGTERM does. Interrupts are counted as Interrupts says.
#pragma once

#include <memory>

#include "launcher/agent/feature.hpp"

namespace ddprun::inline launch {

// Always made. From began() on signals mean this, and when the agent leaves those that were watched stay blocked: the process
// is about to end, and its exit code shall not give way to a signal that comes then.
std::unique_ptr<Feature> make_launcher_signals(FeatureInputs& inputs);

}  // namespace ddprun::inline launch
