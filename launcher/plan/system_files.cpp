#include "launcher/plan/system_files.hpp"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::optional<std::string> line_in(const fs::path& path) {
    auto text = read_small_file(path, kMaxSystemFile);
    if (!text.has_value()) return std::nullopt;
    while (text->ends_with('\n')) text->pop_back();
    return std::optional(std::move(*text));
}

std::vector<std::string> names_in(const fs::path& folder, std::string_view beginning) {
    // /dev has hundreds, and a path made of each costs more than all else that is looked at before a start.
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
    std::vector<std::string> names;
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
        const std::string_view name = entry->d_name;
        if (name.starts_with(beginning) && name != "." && name != "..") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::optional<int> number_in(const fs::path& path) {
    const auto line = line_in(path);
    return line ? whole_number<int>(*line, -1) : std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
