#include "apps/cli/config_file.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "apps/cli/option_row.hpp"

namespace ddprun::inline app {
namespace {

// The row that a name in the file stands for. The file itself can only be named from outside.
const OptionRow& row_named(const std::string& name, const std::vector<OptionGroup>& groups) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    std::vector<std::string> names;
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (long_name(row) == long_name(config_row())) continue;
            for (const std::string& known : comma_separated(row.names)) {
                if (known == flag) return row;
                if (known.starts_with("--")) names.push_back(known.substr(2));
            }
        }
    }
    throw BadValue(fmt::format("{}: no such option{}", name, did_you_mean(flag.substr(2), names)));
}

}  // namespace

ConfigFile read_config_file(const std::string& path, const std::vector<OptionGroup>& groups) {
    std::ifstream file(path);
    // A folder can be opened, too, and is noticed only by reading.
    if (file) file.peek();
    if (!file.is_open() || file.bad())
        throw BadValue(fmt::format("cannot be read: {}", std::strerror(errno)));
    file.clear();
    ConfigFile config{path, {}};
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
        // A section's begin and end.
        if (item.name == "++" || item.name == "--") continue;
        const OptionRow& row = row_named(item.fullname(), groups);
        auto& texts = config.values[long_name(row)];
        for (const std::string& text : item.inputs) {
            if (!text.empty()) texts.push_back(text);
        }
        if (texts.size() > 1 && !row.repeated)
            throw BadValue(item.name + ": takes one value; put one with blanks or commas in quotes");
    }
    std::erase_if(config.values, [](const auto& entry) { return entry.second.empty(); });
    return config;
}

}  // namespace ddprun::inline app
