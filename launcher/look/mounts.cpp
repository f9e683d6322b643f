#include "launcher/look/mounts.hpp"

#include <fmt/core.h>

#include <optional>
#include <sstream>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

struct Mount {
    int number = 0;
    std::string place;
    std::string type;
    std::string source;
};

// "36 35 98:0 / /data rw,noatime shared:1 - nfs4 server:/export rw"
std::optional<Mount> parse_mount(std::string_view line) {
    std::istringstream words{std::string(line)};
    Mount mount;
    std::string word;
    words >> mount.number;
    for (int i = 0; i < 4; ++i) words >> mount.place;
    while (words >> word && word != "-") {
    }
    words >> mount.type >> mount.source;
    if (!words) return std::nullopt;
    mount.place = unescaped_place(mount.place);
    mount.source = unescaped_place(mount.source);
    return mount;
}

std::string to_string(const Mount& mount) {
    return fmt::format("{} ({}, {})", mount.place, mount.type, mount.source);
}

bool is_below(std::string_view path, std::string_view folder) {
    if (!path.starts_with(folder)) return false;
    return folder.ends_with('/') || path.size() == folder.size() || path[folder.size()] == '/';
}

}  // namespace

std::string unescaped_place(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto number = text[i] == '\\' && i + 3 < text.size()
                                ? whole_number<int>(text.substr(i + 1, 3), 0, 255, 8)
                                : std::nullopt;
        plain += number ? static_cast<char>(*number) : text[i];
        if (number) i += 3;
    }
    return plain;
}

// Of several at one place the last is on top.
std::string mount_of(std::string_view mountinfo, std::string_view path) {
    std::optional<Mount> best;
    for (const std::string_view line : split_at(mountinfo, '\n')) {
        auto mount = parse_mount(line);
        if (!mount || !is_below(path, mount->place)) continue;
        if (!best || mount->place.size() >= best->place.size()) best = std::move(mount);
    }
    return best ? to_string(*best) : std::string();
}

std::string mount_of_number(std::string_view mountinfo, int number) {
    for (const std::string_view line : split_at(mountinfo, '\n')) {
        const auto mount = parse_mount(line);
        if (mount && mount->number == number) return to_string(*mount);
    }
    return {};
}

}  // namespace launch
}  // namespace ddprun
