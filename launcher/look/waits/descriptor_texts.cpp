#include "launcher/look/waits/descriptor_texts.hpp"

#include <string>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

std::vector<std::string_view> words_of_line(std::string_view line) {
    std::vector<std::string_view> words;
    for (const std::string_view word : split_at(line, ' ')) {
        if (!word.empty()) words.push_back(word);
    }
    return words;
}

struct LockLine {
    std::string_view number;  // "1:"; those that wait for a lock have the number of the lock
    bool waits = false;
    pid_t process = 0;  // -1: of an open file
    std::uint64_t inode = 0;
};

// "1: FLOCK  ADVISORY  WRITE 77 08:01:1234 0 EOF", and of what waits for it "1: -> FLOCK  ADVISORY …".
std::optional<LockLine> parse_lock(std::string_view text) {
    auto words = words_of_line(text);
    LockLine line;
    line.waits = words.size() > 1 && words[1] == "->";
    if (line.waits) words.erase(words.begin() + 1);
    constexpr std::size_t kProcess = 4, kFile = 5;
    if (words.size() <= kFile) return std::nullopt;
    const auto process = whole_number<pid_t>(words[kProcess]);
    const auto inode = whole_number<std::uint64_t>(words[kFile].substr(words[kFile].rfind(':') + 1));
    if (!process || !inode) return std::nullopt;
    line.number = words.front();
    line.process = *process;
    line.inode = *inode;
    return line;
}

}  // namespace

DescriptorInfo parse_descriptor_info(std::string_view text) {
    DescriptorInfo info;
    for (const std::string_view line : split_at(text, '\n')) {
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        const std::string_view name = line.substr(0, colon);
        const std::string_view value = trimmed(line.substr(colon + 1));
        if (name == "mnt_id") info.mount = whole_number<int>(value);
        if (name == "ino") info.inode = whole_number<std::uint64_t>(value);
        if (name == "Pid") info.process = whole_number<pid_t>(value, 1);
        const auto watched =
            name == "tfd" ? whole_number<int>(value.substr(0, value.find(' ')), 0) : std::nullopt;
        if (watched && info.watched.size() < kMaxWatched) info.watched.push_back(*watched);
    }
    return info;
}

pid_t holder_of_file_lock(std::string_view locks, pid_t waiter, std::optional<std::uint64_t> inode) {
    LockLine held;
    for (const std::string_view text : split_at(locks, '\n')) {
        const auto line = parse_lock(text);
        if (!line) continue;
        if (!line->waits) held = *line;
        const bool is_open_file = line->process < 0 && inode && line->inode == *inode;
        if (line->waits && line->number == held.number && (line->process == waiter || is_open_file))
            return held.process > 0 ? held.process : 0;
    }
    return 0;
}

}  // namespace launch
}  // namespace ddprun
