// An OptionOrigin says where the value of an option comes from, for texts that show it or complain about it.
// Plain values.
#pragma once

#include <map>
#include <string>

namespace ddprun {
inline namespace launch {

// OptionSource: the sources from the weakest to the strongest.
enum class OptionSource { standard, config_file, variable, command_line };

struct OptionOrigin {
    OptionSource source = OptionSource::standard;
    std::string name;  // of the variable or of the file; else empty

    bool operator==(const OptionOrigin&) const = default;
};

// OptionOrigins: the key is the option's first long name ("--nnodes"). An option that is not in it has its
// default.
using OptionOrigins = std::map<std::string, OptionOrigin>;

}  // namespace launch
}  // namespace ddprun
