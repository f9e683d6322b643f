#include "launcher/process/process_table.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// A line of stat has 52 numbers and a short name, wchan one name.
constexpr std::size_t kMaxLine = 2048;

// One thread may have a million children.
constexpr std::size_t kMaxChildrenFile = 8 * 1024 * 1024;

// The tree is walked so often at most until a walk finds nobody new.
constexpr int kMaxWalks = 10;

// These count the words of /proc/<pid>/stat behind the command; the state is number 0.
constexpr int kParentWord = 1;
constexpr int kGroupWord = 2;
constexpr int kFlagsWord = 6;
constexpr int kStartTimeWord = 19;

std::string read_line(const std::string& path) {
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

// Returns the numbers among the names in a folder; nothing at all if it cannot be listed.
std::optional<std::vector<pid_t>> numbers_in(const std::string& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
    if (!directory) return std::nullopt;
    std::vector<pid_t> numbers;
    while (const dirent* entry = ::readdir(directory.get())) {
        pid_t number = 0;
        if (parse(std::string_view(entry->d_name), number)) numbers.push_back(number);
    }
    return numbers;
}

// Each thread has children of its own.
void append_children(pid_t process, const std::string& proc, std::vector<pid_t>& children) {
    const auto tasks = fmt::format("{}/{}/task", proc, process);
    const auto threads = numbers_in(tasks);
    if (!threads) return;
    for (const pid_t thread : *threads) {
        const auto list = read_small_file(fmt::format("{}/{}/children", tasks, thread), kMaxChildrenFile);
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

std::optional<ProcessStat> read_process_stat(pid_t pid, const std::string& proc) {
    return parse_process_stat(read_line(fmt::format("{}/{}/stat", proc, pid)));
}

std::optional<std::vector<pid_t>> list_processes(const std::string& proc) { return numbers_in(proc); }

std::optional<std::vector<ProcessStat>> read_process_table(const std::string& proc) {
    const auto numbers = numbers_in(proc);
    if (!numbers) return std::nullopt;
    std::vector<ProcessStat> table;
    for (const pid_t pid : *numbers) {
        // A process that ends meanwhile has no line any more.
        if (auto process = read_process_stat(pid, proc)) table.push_back(std::move(*process));
    }
    return table;
}

bool sees_own_processes(const std::string& proc) { return read_process_stat(::getpid(), proc).has_value(); }

std::optional<std::vector<ProcessStat>> read_own_processes(const std::string& proc) {
    const pid_t self = ::getpid();
    if (!sees_own_processes(proc)) return std::nullopt;
    if (::access(fmt::format("{0}/{1}/task/{1}/children", proc, self).c_str(), R_OK) != 0)
        return read_process_table(proc);
    std::vector<ProcessStat> table;
    std::unordered_set<pid_t> known;
    // A process that loses its parent between the looks at the two becomes our child, and is there in the
    // next walk.
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

std::vector<ProcessStat> descendants(const std::vector<ProcessStat>& table, pid_t root,
                                     const std::vector<ProcessStat>& spared) {
    std::unordered_map<pid_t, std::uint64_t> left_out;
    for (const ProcessStat& process : spared) left_out.emplace(process.pid, process.start_time);
    std::multimap<pid_t, const ProcessStat*> children;  // those of one parent in the order of the table
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

Survivor describe_survivor(const ProcessStat& process, const std::string& proc) {
    std::string wchan = read_line(fmt::format("{}/{}/wchan", proc, process.pid));
    if (wchan == "0") wchan.clear();
    return {process.pid, process.state, printable(std::move(wchan)), printable(process.command), -1};
}

std::string to_string(const Survivor& survivor) {
    if (survivor.pid == 0 && !survivor.command.empty()) return survivor.command;
    return fmt::format("pid {} ({}{}state {}{}{}{})", survivor.pid, survivor.command,
                       survivor.command.empty() ? "" : ", ", survivor.state,
                       survivor.wchan.empty() ? "" : " in ", survivor.wchan,
                       survivor.foreign_uid < 0 ? "" : fmt::format(", of uid {}", survivor.foreign_uid));
}

namespace {

// include/linux/sched.h has these flags.
constexpr std::uint32_t kExiting = 0x4;
constexpr std::uint32_t kDumpingCore = 0x200;
constexpr std::uint32_t kKilledBySignal = 0x400;

// Every thread of a process that was killed has it pending until it runs again. The process as a whole has it
// until the end, unless one of its threads was sent it (tgkill).
bool has_pending_kill(std::string_view status) {
    const std::uint64_t pending =
        signals_in_status(status, "SigPnd").value_or(0) | signals_in_status(status, "ShdPnd").value_or(0);
    return (pending >> (SIGKILL - 1) & 1) != 0;
}

}  // namespace

std::optional<std::uint64_t> signals_in_status(std::string_view status, std::string_view name) {
    for (std::string_view line : lines_of(status)) {
        if (!line.starts_with(name) || !line.substr(name.size()).starts_with(":\t")) continue;
        return whole_number<std::uint64_t>(line.substr(name.size() + 2), 0, ~0ULL, 16);
    }
    return std::nullopt;
}

bool is_ending(pid_t process, const std::string& proc) {
    // The order matters: a signal that is not pending any more has left its trace in the flags, if not in the
    // same instant.
    const auto status = read_small_file(fmt::format("{}/{}/status", proc, process), kMaxStatusFile);
    if (status.has_value() && has_pending_kill(*status)) return true;
    const auto stat = read_process_stat(process, proc);
    return !stat || stat->ended() || (stat->flags & (kExiting | kDumpingCore | kKilledBySignal)) != 0;
}

namespace {

constexpr std::int64_t kBytesOfUnit = 1024;  // ru_maxrss counts these

std::int64_t us_of(const timeval& time) {
    return std::int64_t{time.tv_sec} * 1'000'000 + std::int64_t{time.tv_usec};
}

}  // namespace

// wait4 would reap it; waitid does not, and has a fifth argument that the C library leaves out.
std::optional<ResourceUse> use_of_ended(pid_t child) {
    siginfo_t info = {};
    rusage used = {};
    const long failed =
        ::syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, &used);
    if (failed != 0 || info.si_pid != child) return std::nullopt;
    return ResourceUse{us_of(used.ru_utime), us_of(used.ru_stime), used.ru_maxrss * kBytesOfUnit,
                       used.ru_majflt};
}

}  // namespace launch
}  // namespace ddprun
