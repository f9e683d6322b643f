#include "launcher/look/kernel_view.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// A line of stat has 52 numbers and a short name; status has the user's groups, behind the tracer.
constexpr std::size_t kMaxThreadFile = 4096;
constexpr int kHexadecimal = 16;

// These count the words of stat behind the name; the state is number 0.
constexpr std::size_t kUserTicksWord = 11;
constexpr std::size_t kSystemTicksWord = 12;

// Returns what the file begins with; empty, with the error, if it cannot be read.
std::string beginning_of(const std::string& path, int& error) {
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    error = file ? 0 : errno;
    if (!file) return {};
    std::string bytes(kMaxThreadFile, '\0');
    const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
    error = count < 0 ? errno : 0;
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
}

std::optional<std::uint64_t> hexadecimal(std::string_view word) {
    if (!word.starts_with("0x")) return std::nullopt;
    return whole_number<std::uint64_t>(word.substr(2), 0, std::numeric_limits<std::uint64_t>::max(),
                                       kHexadecimal);
}

// Returns the numbers of the threads, from the smallest on.
std::vector<pid_t> threads_of(const std::string& tasks, bool& left_out) {
    std::vector<pid_t> numbers;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(tasks, error), end; !error && entry != end;
         entry.increment(error)) {
        left_out = numbers.size() == kMaxThreads;
        if (left_out) break;
        if (const auto number = whole_number<pid_t>(entry->path().filename().native()))
            numbers.push_back(*number);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

// Returns nothing for a thread that is gone. `error` is that of its system call.
std::optional<ThreadView> read_thread(const std::string& folder, int& error) {
    ThreadView thread;
    if (!parse_thread_stat(beginning_of(folder + "/stat", error), thread)) return std::nullopt;
    int unused = 0;
    thread.wait_channel = beginning_of(folder + "/wchan", unused);
    if (thread.wait_channel == "0") thread.wait_channel.clear();
    if (!parse_system_call(beginning_of(folder + "/syscall", error), thread)) thread.system_call.reset();
    return thread;
}

}  // namespace

const ThreadView* ProcessView::main_thread() const {
    const auto found =
        std::find_if(threads.begin(), threads.end(), [this](const auto& one) { return one.id == pid; });
    return found == threads.end() ? nullptr : &*found;
}

bool parse_thread_stat(std::string_view line, ThreadView& thread) {
    // A name may hold parentheses and blanks.
    const auto begin = line.find('(');
    const auto end = line.rfind(')');
    if (begin == std::string_view::npos || end == std::string_view::npos || begin == 0 || end < begin ||
        line.size() < end + 3)
        return false;
    const auto id = whole_number<pid_t>(trimmed(line.substr(0, begin)));
    const auto words = split_at(line.substr(end + 2), ' ');
    if (!id || words.size() <= kSystemTicksWord || words.front().size() != 1) return false;
    const auto user = whole_number<std::uint64_t>(words[kUserTicksWord]);
    const auto system = whole_number<std::uint64_t>(words[kSystemTicksWord]);
    if (!user || !system) return false;
    thread.id = *id;
    thread.name = line.substr(begin + 1, end - begin - 1);
    thread.state = words.front().front();
    thread.cpu_ticks = *user + *system;
    return true;
}

bool parse_system_call(std::string_view line, ThreadView& thread) {
    thread.system_call.reset();
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line == "running") return true;
    const auto words = split_at(line, ' ');
    const auto number = whole_number<long>(words.front());
    const std::size_t arguments = number == -1 ? 0 : thread.arguments.size();
    if (!number || words.size() != 1 + arguments + 2) return false;
    std::array<std::uint64_t, 8> values{};
    for (std::size_t i = 1; i < words.size(); ++i) {
        const auto value = hexadecimal(words[i]);
        if (!value) return false;
        values[i - 1] = *value;
    }
    thread.system_call = number;
    thread.arguments.fill(0);
    std::copy_n(values.begin(), arguments, thread.arguments.begin());
    thread.stack_pointer = values[arguments];
    thread.program_counter = values[arguments + 1];
    return true;
}

pid_t tracer_in_status(std::string_view status) {
    constexpr std::string_view kTracer = "\nTracerPid:";
    const auto found = status.find(kTracer);
    if (found == std::string_view::npos) return 0;
    const auto line = status.substr(found + kTracer.size());
    return whole_number<pid_t>(trimmed(line.substr(0, line.find('\n')))).value_or(0);
}

ProcessView read_process_view(pid_t pid, const KernelFiles& files) {
    ProcessView view;
    view.pid = pid;
    const auto folder = fmt::format("{}/{}", files.proc, pid);
    int error = 0;
    ThreadView itself;
    view.is_there = parse_thread_stat(beginning_of(folder + "/stat", error), itself);
    if (!view.is_there) {
        view.why_unreadable = to_reason(pid, error == 0 ? ESRCH : error, files);
        return view;
    }
    view.state = itself.state;
    view.name = itself.name;
    view.tracer = tracer_in_status(beginning_of(folder + "/status", error));
    for (const pid_t thread : threads_of(folder + "/task", view.threads_left_out)) {
        auto seen = read_thread(fmt::format("{}/task/{}", folder, thread), error);
        if (!seen) continue;
        if ((error == EACCES || error == EPERM) && view.why_unreadable.empty())
            view.why_unreadable = to_reason(pid, error, files);
        view.threads.push_back(std::move(*seen));
    }
    if (view.ended()) view.why_unreadable = to_reason(pid, ESRCH, files);
    return view;
}

std::string to_reason(pid_t pid, int error, const KernelFiles& files) {
    if (error == ESRCH || error == ENOENT) return fmt::format("process {} has ended", pid);
    const auto text = std::generic_category().message(error);
    if (error != EACCES && error != EPERM) return fmt::format("process {} cannot be read: {}", pid, text);
    auto reason = fmt::format("the kernel does not let this process read process {}: {}", pid, text);
    int unused = 0;
    const auto scope = whole_number<int>(trimmed(split_at(beginning_of(files.yama, unused), '\n').front()));
    if (!scope || *scope == 0) return reason;
    constexpr std::array<std::string_view, 3> kAsks = {
        "lets only its ancestors", "asks for the capability SYS_PTRACE", "lets no process"};
    const auto place = static_cast<std::size_t>(std::clamp(*scope, 1, 3)) - 1;
    return reason + fmt::format("; kernel.yama.ptrace_scope is {}, which {}", *scope, kAsks[place]);
}

}  // namespace launch
}  // namespace ddprun
