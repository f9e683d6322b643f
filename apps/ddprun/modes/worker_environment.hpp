// The functions here say what a worker's environment has that the launcher's has not, before the workers
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
    std::optional<std::string> value;  // nothing: it is taken out, or …
    std::string later;                 // … known when the job runs: from when, or what it will be

    bool operator==(const EnvironmentChange&) const = default;
};
BOOST_DESCRIBE_STRUCT(EnvironmentChange, (), (name, value, later))

// Sorted by name. `inherited` is the launcher's own environment.
std::vector<EnvironmentChange> changes_of_worker(LaunchOptions options, const Environment& inherited,
                                                 int local_rank, const std::string& host);

// Takes those that all the lists have out of them.
std::vector<EnvironmentChange> take_common(std::vector<std::vector<EnvironmentChange>*> lists);

// `environment` over `inherited`, without anything that is known later only.
std::vector<EnvironmentChange> changes_between(const Environment& inherited, const Environment& environment);

// "RANK=0", "DDPRUN_NNODES is taken out", "DDPRUN_RUN_ID: made at the start". Values whose names say that
// they are secret are not shown.
std::string to_text(const EnvironmentChange& change);
// The value as it may be shown.
std::string shown_value(const EnvironmentChange& change);

// Writes a value of the option of this long name: "3:MY_TOKEN=(not shown)".
std::string shown_option_value(const std::string& option, const std::string& value);

}  // namespace app
}  // namespace ddprun
