// make_features() makes what this launcher can do besides running workers in rounds, by the table of
// features. A new feature is a file of this wing and a row of the table.
#pragma once

#include <memory>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun {
inline namespace launch {

// Makes the feature that every launch has, by which signals to the launcher have a meaning for its job. Some
// end it, some go on to all of its workers; Ctrl-Z makes it stand still, SIGWINCH says that the terminal has
// another size. A signal that is not expected ends the job as SIGTERM does. Interrupts are counted as
// Interrupts says. Signals have their meaning from began() on. When the agent leaves, the signals that were
// watched stay blocked, so a signal that comes then does not replace the exit code.
std::unique_ptr<Feature> make_launcher_signals(FeatureInputs& inputs);

// Makes the feature of the launcher's terminal: its size, Ctrl-Z, and --tty, which lends it to one worker.
std::unique_ptr<Feature> make_terminal(FeatureInputs& inputs);

// Makes the features that were asked for, in the order of the table, by which they are called.
std::vector<std::unique_ptr<Feature>> make_features(FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
