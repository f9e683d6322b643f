// The file of --config, in the form of TOML or INI: one NAME = VALUE a line, NAME an option's long one without
// the dashes in front. An option that may be repeated takes a list.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddprun::inline app {

struct OptionGroup;

struct ConfigFile {
    std::string path;
    std::map<std::string, std::vector<std::string>> values;  // by long name ("--nnodes"); none is empty
};

// Throws BadValue for a file that cannot be read, for a name that is no option's, and for several values
// where there can be one.
ConfigFile read_config_file(const std::string& path, const std::vector<OptionGroup>& groups);

}  // namespace ddprun::inline app
