// Exclusions: which options cannot be given together. Of two from different places the weaker one is passed
// over (a variable is weaker than the command line, the file weaker than both); two from the same place are
// the user's to settle, and an error. Pure, but that weaker_option() may read the file of --hostfile.
#pragma once

#include <optional>
#include <string>

#include "apps/ddprun/options/said.hpp"

namespace ddprun {
inline namespace app {

// A Clash is an option that another one excludes.
struct Clash {
    std::string said;   // the option, with its value if that is what is excluded: "--stdin 3"
    std::string other;  // the other option; or what is none, so that the clash is an error in any case
    std::string why;

    std::string text() const { return said + ": " + why; }
};

// Returns the first clash among what was said.
std::optional<Clash> clash_of(const Said& line);

// Returns the first clash with a start on the hosts that `hosts` names: "--hosts".
std::optional<Clash> clash_with_hosts(const Said& line, const std::string& hosts);
// Returns whether --nnodes clashes with that, where so many are named.
std::optional<Clash> clash_of_nnodes(const Said& line, const std::string& hosts, int count);

// WeakerOption is an option that is passed over, by its long name.
struct WeakerOption {
    std::string flag;
    std::string remark;
};

// Returns the weaker option of the first clash; nothing where there is none, or where it is the user's to
// settle.
std::optional<WeakerOption> weaker_option(const Said& line);

}  // namespace app
}  // namespace ddprun
