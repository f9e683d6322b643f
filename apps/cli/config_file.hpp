// parse_config() reads the file of --config: TOML, one NAME = VALUE a line, NAME an option's long one without
// the dashes in front. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace app {

// kMaxConfigFile is how many bytes a file of options may have.
inline constexpr std::size_t kMaxConfigFile = 1024 * 1024;

// A ConfigEntry is what one name of the file is set to; an option that may be repeated takes a list. An entry
// without texts sets nothing.
struct ConfigEntry {
    std::string name;
    std::vector<std::string> texts;
    std::size_t line = 0;
    std::string place;  // of the name: "line 3, column 1"
};

// parse_config returns the entries of such a text, in its order. Throws BadValue with line and column for a
// text that is no TOML. Also throws for TOML that is no option's value: a table, a date, a list in a list, a
// text with a zero byte.
std::vector<ConfigEntry> parse_config(std::string_view text);

}  // namespace app
}  // namespace ddprun
