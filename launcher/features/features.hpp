// The table of features has what this launcher can do besides running workers in rounds. A new one is a file
// of this wing and a row of the table.
#pragma once

#include <memory>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun {
inline namespace launch {

// Signals that the launcher is sent have a meaning for its job: they end it, go on to all of its workers,
// make it stand still (Ctrl-Z), or say that the terminal has another size. One that nobody expects ends the
// job as SIGTERM does. Interrupts are counted as Interrupts says. It is always made. From began() on signals
// mean this, and when the agent leaves those that were watched stay blocked: the process is about to end, and
// its exit code shall not give way to a signal that comes then.
std::unique_ptr<Feature> make_launcher_signals(FeatureInputs& inputs);

// The launcher's terminal: its size, Ctrl-Z, and --tty, which lends it to one worker.
std::unique_ptr<Feature> make_terminal(FeatureInputs& inputs);

// Makes those that were asked for, in the order of the table, by which they are called.
std::vector<std::unique_ptr<Feature>> make_features(FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
