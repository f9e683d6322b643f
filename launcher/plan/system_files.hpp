// line_in(), names_in() and number_in(): what files and folders of sysfs, /proc and /dev say.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// kMaxSystemFile: the most bytes that are read of such a file. A list of all CPUs with gaps everywhere takes
// more than a page; nothing else takes as much.
inline constexpr std::size_t kMaxSystemFile = std::size_t{256} * 1024;

// Returns what a file of sysfs says, without the ends of its lines; nothing where it cannot be read.
std::optional<std::string> line_in(const std::filesystem::path& path);
// Returns the names in a folder that begin so, sorted; none where it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::string_view beginning = {});
std::optional<int> number_in(const std::filesystem::path& path);

}  // namespace launch
}  // namespace ddprun
