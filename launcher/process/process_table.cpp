#include "launcher/process/process_table.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

// A line of stat has 52 numbers and a short name, wchan one name.
constexpr std::size_t kMaxLine = 2048;

// Of one thread; a million children.
constexpr std::size_t kMaxChildrenFile = 8 * 1024 * 1024;

// How often the tree is walked at most until a walk finds nobody new.
constexpr int kMaxWalks = 10;

// In the words of /proc/<pid>/stat behind the command: the state is number 0.
constexpr int kParentWord = 1;
constexpr int kGroupWord = 2;
constexpr int kFlagsWord = 6;
constexpr int kStartTimeWord = 19;

std::string read_line(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return {};
    std::array<char, kMaxLine> buffer;
    ssize_t count = 0;
    do {
        count = ::read(fd, buffer.data(), buffer.size());
    } while (count < 0 && errno == EINTR);
    ::close(fd);
    return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
}

template <class Number>
bool parse(std::string_view text, Number& number) {
    const auto found = whole_number<Number>(text);
    number = found.value_or(number);
    return found.has_value();
}

std::string_view take_word(std::string_view& rest) {
    const auto end = rest.find_first_of(" \n");
    const auto word = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return word;
}

// The numbers among the names in a folder. Nothing at all if it cannot be listed.
std::optional<std::vector<pid_t>> numbers_in(const std::filesystem::path& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
    if (!directory) return std::nullopt;
    std::vector<pid_t> numbers;
    while (const dirent* entry = ::readdir(directory.get())) {
        pid_t number = 0;
        if (parse(std::string_view(entry->d_name), number)) numbers.push_back(number);
    }
    return numbers;
}

// Each thread has its own.
void append_children(pid_t process, const std::filesystem::path& proc, std::vector<pid_t>& children) {
    const auto tasks = proc / std::to_string(process) / "task";
    const auto threads = numbers_in(tasks);
    if (!threads) return;
    for (const pid_t thread : *threads) {
        const auto list = read_small_file(tasks / std::to_string(thread) / "children", kMaxChildrenFile);
        if (!list.has_value()) continue;
        std::string_view rest = *list;
        for (pid_t child = 0; parse(take_word(rest), child);) children.push_back(child);
    }
}

std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
    return text;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view line) {
    const auto command_start = line.find('(');
    const auto command_end = line.rfind(')');
    if (command_start == std::string_view::npos || command_end == std::string_view::npos ||
        command_start < 2 || command_end < command_start || line.size() < command_end + 3) {
        return std::nullopt;
    }
    ProcessStat process;
    if (!parse(line.substr(0, command_start - 1), process.pid)) return std::nullopt;
    process.command = line.substr(command_start + 1, command_end - command_start - 1);
    process.state = line[command_end + 2];
    std::string_view rest = line.substr(command_end + 2);
    for (int word = 0; word <= kStartTimeWord; ++word) {
        const std::string_view text = take_word(rest);
        const bool understood = word == kParentWord      ? parse(text, process.parent)
                                : word == kGroupWord     ? parse(text, process.process_group)
                                : word == kFlagsWord     ? parse(text, process.flags)
                                : word == kStartTimeWord ? parse(text, process.start_time)
                                                         : true;
        if (!understood) return std::nullopt;
    }
    return process;
}

std::optional<ProcessStat> read_process_stat(pid_t pid, const std::filesystem::path& proc) {
    return parse_process_stat(read_line(proc / std::to_string(pid) / "stat"));
}

std::optional<std::vector<ProcessStat>> read_process_table(const std::filesystem::path& proc,
                                                           const std::function<bool(pid_t)>& wanted) {
    const auto numbers = numbers_in(proc);
    if (!numbers) return std::nullopt;
    std::vector<ProcessStat> table;
    for (const pid_t pid : *numbers) {
        if (!wanted(pid)) continue;
        // A process that ends meanwhile has no line any more.
        if (auto process = read_process_stat(pid, proc)) table.push_back(std::move(*process));
    }
    return table;
}

bool sees_own_processes(const std::filesystem::path& proc) {
    return read_process_stat(::getpid(), proc).has_value();
}

std::optional<std::vector<ProcessStat>> read_own_processes(const std::filesystem::path& proc) {
    const std::string self = std::to_string(::getpid());
    if (!sees_own_processes(proc)) return std::nullopt;
    if (::access((proc / self / "task" / self / "children").c_str(), R_OK) != 0)
        return read_process_table(proc);
    std::vector<ProcessStat> table;
    std::unordered_set<pid_t> known;
    // A process that loses its parent between the looks at the two becomes our child, and is there in the next walk.
    for (int walk = 0; walk < kMaxWalks; ++walk) {
        const std::size_t before = table.size();
        std::vector<pid_t> found{::getpid()};
        for (std::size_t next = 0; next < found.size(); ++next) {
            append_children(found[next], proc, found);
            if (!known.insert(found[next]).second) continue;
            if (auto process = read_process_stat(found[next], proc)) table.push_back(std::move(*process));
        }
        if (table.size() == before) break;
    }
    return table;
}

bool process_group_alive(pid_t process_group, const std::filesystem::path& proc) {
    if (::kill(-process_group, 0) < 0 && errno == ESRCH) return false;
    const auto table = read_own_processes(proc);
    // Without /proc a zombie cannot be told from a living process.
    if (!table) return true;
    return std::any_of(table->begin(), table->end(), [&](const ProcessStat& process) {
        return process.process_group == process_group && !process.ended();
    });
}

std::vector<ProcessStat> descendants(const std::vector<ProcessStat>& table, pid_t root,
                                     const std::vector<ProcessStat>& spared) {
    std::unordered_map<pid_t, std::uint64_t> left_out;
    for (const ProcessStat& process : spared) left_out.emplace(process.pid, process.start_time);
    std::multimap<pid_t, const ProcessStat*> children;  // of one parent in the order of the table
    for (const ProcessStat& process : table) {
        const auto entry = left_out.find(process.pid);
        const bool is_spared = entry != left_out.end() && entry->second == process.start_time;
        if (!is_spared) children.emplace(process.parent, &process);
    }
    std::vector<ProcessStat> found;
    // A table that was read while numbers were given anew may hold a circle.
    std::unordered_set<pid_t> visited{root};
    auto add_children_of = [&](pid_t parent) {
        auto [child, end] = children.equal_range(parent);
        for (; child != end; ++child) {
            if (visited.insert(child->second->pid).second) found.push_back(*child->second);
        }
    };
    add_children_of(root);
    for (std::size_t next = 0; next < found.size(); ++next) add_children_of(found[next].pid);
    return found;
}

Survivor describe_survivor(const ProcessStat& process, const std::filesystem::path& proc) {
    std::string wchan = read_line(proc / std::to_string(process.pid) / "wchan");
    if (wchan == "0") wchan.clear();
    return {process.pid, process.state, printable(std::move(wchan)), printable(process.command)};
}

std::string to_string(const Survivor& survivor) {
    return fmt::format("pid {} ({}{}state {}{}{})", survivor.pid, survivor.command,
                       survivor.command.empty() ? "" : ", ", survivor.state,
                       survivor.wchan.empty() ? "" : " in ", survivor.wchan);
}

}  // namespace ddprun::inline launch
