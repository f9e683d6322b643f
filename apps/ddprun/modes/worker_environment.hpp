// An EnvironmentChange says what a worker's environment has that the launcher's has not, before the workers
// start. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace app {

struct EnvironmentChange {
    std::string name;
    std::optional<std::string> value;  // nothing: the variable is taken out, or …
    std::string later;                 // … known when the job runs: from when, or what it will be

    bool operator==(const EnvironmentChange&) const = default;
};
BOOST_DESCRIBE_STRUCT(EnvironmentChange, (), (name, value, later))

// Returns the changes sorted by name. `inherited` is the launcher's own environment.
std::vector<EnvironmentChange> changes_of_worker(LaunchOptions options, const Environment& inherited,
                                                 int local_rank, const std::string& host);

// Takes the changes that all the lists have out of them, and returns them.
std::vector<EnvironmentChange> take_common(std::vector<std::vector<EnvironmentChange>*> lists);

// Returns `environment` over `inherited`, without anything that is known later only.
std::vector<EnvironmentChange> changes_between(const Environment& inherited, const Environment& environment);

// Returns "RANK=0", "DDPRUN_NNODES is taken out", "DDPRUN_RUN_ID: made at the start". A value is not shown if
// its name says that it is secret.
std::string to_text(const EnvironmentChange& change);
// Returns the value as it may be shown.
std::string shown_value(const EnvironmentChange& change);

// Writes a value of the option of this long name: "3:MY_TOKEN=(not shown)".
std::string shown_option_value(const std::string& option, const std::string& value);

}  // namespace app
}  // namespace ddprun
