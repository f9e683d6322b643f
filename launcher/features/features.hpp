// make_features() makes what this launcher can do besides running workers in rounds, by the table of
// features. A new feature is a file of this wing and a row of the table, which has for it:
//
//   make      makes the feature
//   is_asked  whether the user has asked for it
//   open      once the command line is understood: what the feature needs of the system, so that what is
//             wrong with that is said before anything starts (a file, a port of a variable)
//   late      which variables it gives to workers, for --explain
//
// Each of them reads the feature's own struct, LaunchOptions::features.of<…Options>(), in which a row of the
// command line has put what was said, and `open` what it has opened. All but `open` are pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun {
inline namespace launch {

// Makes the feature that every launch has, by which signals to the launcher have a meaning for its job. Some
// end it, some go on to all of its workers; Ctrl-Z makes it stand still, SIGWINCH says that the terminal has
// another size. A signal that is not expected ends the job as SIGTERM does. Interrupts are counted as
// Interrupts says. Signals have their meaning from began() on. When the agent leaves, the signals that were
// watched stay blocked, so a signal that comes then does not replace the exit code.
std::unique_ptr<Feature> make_launcher_signals(const FeatureInputs& inputs);

// Makes the feature of the launcher's terminal: its size, Ctrl-Z, and --tty, which lends it to one worker.
std::unique_ptr<Feature> make_terminal(const FeatureInputs& inputs);

// Opens early, in the order of the table, what features need of the system, and puts that into their options.
// Returns what is wrong in one line that names the flag or the variable; nothing more is opened then.
std::optional<std::string> open_features(FeatureOptions& options, const EarlyFacts& facts);

// Returns what the features would give to workers of this launch.
std::vector<LateVariables> late_variables(const LaunchOptions& options);

// Makes the features that were asked for, in the order of the table, by which they are called.
std::vector<std::unique_ptr<Feature>> make_features(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
