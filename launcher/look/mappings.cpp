#include "launcher/look/mappings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxMapsFile = 32 * 1024 * 1024;
constexpr std::size_t kPermissions = 4;
constexpr int kHex = 16;

// Takes the text up to the separator, and that, from the rest; all of it if there is none.
std::string_view take_part(std::string_view& rest, char separator) {
    const auto end = rest.find(separator);
    const auto part = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return part;
}

template <class Number>
bool take_hex(std::string_view& rest, char separator, Number& number) {
    const auto found =
        whole_number<Number>(take_part(rest, separator), 0, std::numeric_limits<Number>::max(), kHex);
    number = found.value_or(0);
    return found.has_value();
}

// The kernel writes a newline of a name so.
std::string without_escapes(std::string_view name) {
    constexpr std::string_view kNewline = "\\012";
    std::string result;
    for (;;) {
        const auto found = name.find(kNewline);
        result += name.substr(0, found);
        if (found == std::string_view::npos) return result;
        result += '\n';
        name.remove_prefix(found + kNewline.size());
    }
}

}  // namespace

std::optional<Mapping> parse_mapping(std::string_view line) {
    Mapping mapping;
    if (!take_hex(line, '-', mapping.begin) || !take_hex(line, ' ', mapping.end)) return std::nullopt;
    mapping.permissions = take_part(line, ' ');
    if (mapping.end <= mapping.begin || mapping.permissions.size() != kPermissions) return std::nullopt;
    if (!take_hex(line, ' ', mapping.offset)) return std::nullopt;
    take_part(line, ' ');  // the device
    take_part(line, ' ');  // and the file's number
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    mapping.path = without_escapes(line);
    return mapping;
}

boost::system::result<std::vector<Mapping>> read_mappings(pid_t pid, const std::string& proc) {
    const auto file = read_small_file(fmt::format("{}/{}/maps", proc, pid), kMaxMapsFile);
    if (!file.has_value()) {
        const bool is_long = file.error().category() != boost::system::system_category();
        return is_long ? boost::system::error_code(EMSGSIZE, boost::system::system_category()) : file.error();
    }
    std::vector<Mapping> mappings;
    std::string_view rest = *file;
    while (!rest.empty() && mappings.size() < kMaxMappings) {
        if (auto mapping = parse_mapping(take_part(rest, '\n'))) mappings.push_back(std::move(*mapping));
    }
    return mappings;
}

const Mapping* mapping_of(const std::vector<Mapping>& mappings, std::uintptr_t address) {
    const auto behind = std::upper_bound(mappings.begin(), mappings.end(), address,
                                         [](auto place, const Mapping& one) { return place < one.end; });
    return behind != mappings.end() && behind->holds(address) ? &*behind : nullptr;
}

}  // namespace launch
}  // namespace ddprun
