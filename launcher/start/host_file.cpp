#include "launcher/start/host_file.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/split.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kFileBlanks = " \t\r";
constexpr std::size_t kMaxWordShown = 80;

std::string_view take_file_word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(kFileBlanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(kFileBlanks));
    line.remove_prefix(word.size());
    return word;
}

std::optional<std::string> read_host_line(std::string_view line, HostCollection& hosts) {
    line = line.substr(0, line.find('#'));
    const std::string_view item = take_file_word(line);
    if (item.empty()) return std::nullopt;
    std::optional<int> slots;
    for (auto word = take_file_word(line); !word.empty(); word = take_file_word(line)) {
        const auto equals = std::min(word.find('='), word.size());
        const std::string_view name = word.substr(0, equals);
        const std::string_view value = word.substr(std::min(equals + 1, word.size()));
        const bool is_slots = name == "slots";
        if (!is_slots && name != "max_slots" && name != "max-slots")
            return fmt::format("'{}' is not known here; write HOST slots=N",
                               harmless_line(word, kMaxWordShown));
        const auto number = parse_slots(value);
        if (!number)
            return fmt::format("'{}' is no number of slots; write slots=8",
                               harmless_line(word, kMaxWordShown));
        if (is_slots && slots) return "slots= stands there twice";
        if (is_slots) slots = number;
    }
    const auto wrong = hosts.add(item, slots);
    return wrong ? std::optional(named_item(item, *wrong)) : std::nullopt;
}

}  // namespace

std::variant<std::vector<HostSlots>, std::string> parse_host_file(std::string_view text,
                                                                  std::string_view file) {
    HostCollection hosts;
    std::size_t number = 0;
    for (const std::string_view line : split_at(text, '\n')) {
        ++number;
        if (const auto wrong = read_host_line(line, hosts))
            return fmt::format("{}:{}: {}", file, number, *wrong);
    }
    auto found = hosts.take();
    if (found.empty()) return fmt::format("{}: names no host", file);
    return found;
}

}  // namespace ddprun::inline launch
