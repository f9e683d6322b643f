#include "launcher/look/waits/wait_reader.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/look/mounts.hpp"
#include "launcher/look/waits/descriptor_texts.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxProcessFile = 64UL * 1024;
constexpr std::size_t kMaxTableFile = 4UL * 1024 * 1024;  // mountinfo, locks

// ProcessFolder is /proc/PID.
class ProcessFolder {
  public:
    ProcessFolder(const std::string& proc, pid_t process)
        : proc_(proc), pid_(process), path_(fmt::format("{}/{}/", proc, process)) {}

    std::string text(const std::string& name, std::size_t most = kMaxProcessFile) const {
        auto found = read_small_file(path_ + name, most);
        return found.has_value() ? std::move(*found) : std::string();
    }

    std::string name() const { return std::string(split_at(text("comm"), '\n').front()); }
    std::string link(int descriptor) const { return link_of(pid_, descriptor, proc_); }
    std::string mounts() const { return text("mountinfo", kMaxTableFile); }
    DescriptorInfo info(int descriptor) const {
        return parse_descriptor_info(text(fmt::format("fdinfo/{}", descriptor), kMaxTableFile));
    }

    // Returns where a link leads that is named in this folder.
    std::string target(const char* name) const {
        std::error_code error;
        return std::filesystem::read_symlink(path_ + name, error).native();
    }

    // Returns true in a process that was forked and has not called exec since.
    bool is_before_exec() const {
        constexpr std::size_t kFlagsWord = 6;        // behind the name
        constexpr std::uint64_t kForkNoExec = 0x40;  // PF_FORKNOEXEC
        const std::string line = text("stat");
        const auto end = line.rfind(") ");
        const auto words =
            split_at(end == std::string::npos ? "" : std::string_view(line).substr(end + 2), ' ');
        const auto flags =
            words.size() > kFlagsWord ? whole_number<std::uint64_t>(words[kFlagsWord]) : std::nullopt;
        return flags && (*flags & kForkNoExec) != 0;
    }

    std::vector<pid_t> children_of(pid_t thread) const {
        std::vector<pid_t> found;
        const std::string list = text(fmt::format("task/{}/children", thread));
        for (const std::string_view word : split_at(list, ' ')) {
            if (const auto child = whole_number<pid_t>(word, 1)) found.push_back(*child);
        }
        return found;
    }

  private:
    const std::string& proc_;
    pid_t pid_;
    std::string path_;
};

// Sets the child that is waited for, where that is one; else how many there are.
void ask_about_child(const ProcessFolder& folder, const ProcessView& process, const ThreadView& thread,
                     const SystemCall& call, WaitFacts& facts) {
    const auto first = static_cast<pid_t>(thread.arguments[0]);
    const auto second = static_cast<int>(thread.arguments[1]);
    std::vector<pid_t> children;
    if (call.shape == CallShape::fork) {
        children = folder.children_of(thread.id);
        if (!children.empty()) children = {children.back()};
    } else if (call.shape == CallShape::wait4 && first > 0) {
        children = {first};
    } else if (call.shape == CallShape::waitid && first == P_PID) {
        children = {second};
    } else if (call.shape == CallShape::waitid && first == P_PIDFD) {
        children = {folder.info(second).process.value_or(0)};
    } else {
        for (const ThreadView& parent : process.threads) {
            const auto more = folder.children_of(parent.id);
            children.insert(children.end(), more.begin(), more.end());
        }
    }
    facts.children = static_cast<int>(children.size());
    if (children.size() == 1) facts.process = children.front();
}

// Sets the path that the call names, and its mount.
void ask_about_path(const ProcessFolder& folder, const ThreadView& thread, const SystemCall& call,
                    const MemoryReader& memory, WaitFacts& facts) {
    const auto place = thread.arguments.at(static_cast<std::size_t>(call.subject));
    const auto path = memory.text(place, WaitReader::kMaxPath);
    if (!path) return;
    facts.path = *path;
    if (!path->starts_with('/')) {
        const auto from = static_cast<int>(thread.arguments[0]);
        const bool is_here = call.subject == 0 || from == AT_FDCWD;
        const std::string base = is_here ? folder.target("cwd") : folder.link(from);
        facts.path = path->empty() ? base : base + "/" + *path;
    }
    facts.mount = mount_of(folder.mounts(), facts.path);
}

LockOwner ask_about_lock(const ProcessView& process, const ThreadView& thread, const MemoryReader& memory) {
    const auto place = static_cast<std::uintptr_t>(thread.arguments[0]);
    LockWords words;
    if (const auto whole = memory.value<std::array<std::uint32_t, 5>>(place)) {
        words = {(*whole)[0], (*whole)[2], (*whole)[3], (*whole)[4]};
    } else {
        words.value = memory.value<std::uint32_t>(place).value_or(0);
    }
    std::vector<pid_t> living;
    for (const ThreadView& one : process.threads) living.push_back(one.id);
    return owner_of_lock(thread, words, living);
}

// Returns the only descriptor that a call polls or watches; nothing of several, whose number it sets.
std::optional<int> only_one_polled(const ProcessFolder& folder, const ThreadView& thread,
                                   const SystemCall& call, const MemoryReader& memory, WaitFacts& facts) {
    if (call.shape == CallShape::poll) {
        constexpr std::uint64_t kMost = 1'000'000;
        facts.polled = static_cast<int>(std::min(thread.arguments[1], kMost));
        const auto first = facts.polled == 1 ? memory.value<pollfd>(thread.arguments[0]) : std::nullopt;
        return first ? std::optional<int>(first->fd) : std::nullopt;
    }
    const auto watched = folder.info(static_cast<int>(thread.arguments[0])).watched;
    facts.polled = static_cast<int>(watched.size());
    return watched.size() == 1 ? std::optional<int>(watched.front()) : std::nullopt;
}

}  // namespace

WaitReader::WaitReader(WaitScope scope) : scope_(std::move(scope)) {}

Wait WaitReader::read(const ProcessView& process, const ThreadView& thread, const MemoryReader& memory) {
    SeenWait sight = sight_of(thread);
    if (process.ended()) sight = {WaitKind::ended};
    return settle_wait(thread, sight, facts_of(process, thread, sight, memory));
}

WaitFacts WaitReader::facts_of(const ProcessView& process, const ThreadView& thread, const SeenWait& sight,
                               const MemoryReader& memory) {
    WaitFacts facts;
    const ProcessFolder folder(scope_.proc, process.pid);
    if (sight.kind == WaitKind::ended) return facts;
    facts.is_starting = scope_.launcher != 0 && folder.is_before_exec() &&
                        folder.target("exe") == ProcessFolder(scope_.proc, scope_.launcher).target("exe");
    if (sight.kind == WaitKind::traced) facts.process = process.tracer;
    const CallShape shape = sight.call == nullptr ? CallShape::restarted : sight.call->shape;
    if (shape == CallShape::futex) facts.lock = ask_about_lock(process, thread, memory);
    if (shape == CallShape::path) ask_about_path(folder, thread, *sight.call, memory, facts);
    if (sight.kind == WaitKind::child) ask_about_child(folder, process, thread, *sight.call, facts);
    std::optional<int> descriptor = sight.descriptor;
    if (shape == CallShape::poll || shape == CallShape::epoll)
        descriptor = only_one_polled(folder, thread, *sight.call, memory, facts);
    if (descriptor) ask_about_descriptor(process.pid, *descriptor, sight.writes, facts);
    if (sight.kind == WaitKind::file_lock) {
        const auto locks = read_small_file(scope_.proc + "/locks", kMaxTableFile);
        const auto inode = folder.info(*sight.descriptor).inode;
        if (locks.has_value()) facts.process = holder_of_file_lock(*locks, process.pid, inode);
    }
    if (facts.process != 0) facts.process_name = ProcessFolder(scope_.proc, facts.process).name();
    return facts;
}

void WaitReader::ask_about_descriptor(pid_t process, int descriptor, bool writes, WaitFacts& facts) {
    const ProcessFolder folder(scope_.proc, process);
    facts.link = folder.link(descriptor);
    if (facts.link.starts_with("socket:")) ask_about_socket(process, facts);
    if (facts.link.starts_with("pipe:")) find_other_end(process, facts.link, writes, !writes, facts);
    if (!facts.link.starts_with('/')) return;
    if (const auto mount = folder.info(descriptor).mount)
        facts.mount = mount_of_number(folder.mounts(), *mount);
}

void WaitReader::ask_about_socket(pid_t process, WaitFacts& facts) {
    constexpr std::string_view kBegin = "socket:[";
    const std::string_view number = std::string_view(facts.link).substr(kBegin.size());
    const auto inode = whole_number<std::uint64_t>(number.substr(0, number.find(']')));
    const SocketEntry* socket = inode ? sockets().find(*inode) : nullptr;
    if (socket == nullptr) return;
    facts.own = SocketTable::end_of(*socket);
    facts.is_listening = socket->is_listening;
    if (socket->is_listening) return;
    const SocketEntry* other = sockets().other_end_of(*socket);
    if (other != nullptr) {
        facts.other = SocketTable::end_of(*other);
        find_other_end(process, fmt::format("socket:[{}]", other->inode), true, true, facts);
    } else if (!socket->is_local) {
        facts.other = SocketEnd{to_string(socket->remote)};
    }
}

// Of several processes another one than this is taken, and the launcher last of all: children of it have what
// it has.
void WaitReader::find_other_end(pid_t process, std::string_view link, bool reads, bool writes,
                                WaitFacts& facts) {
    for (const OpenFile& file : open_files().with(link)) {
        const bool is_other_end = (reads && file.reads) || (writes && file.writes);
        if (!is_other_end) continue;
        if (file.process == scope_.launcher) facts.launcher_reads = true;
        if (facts.process == 0 || facts.process == process || facts.process == scope_.launcher)
            facts.process = file.process;
    }
}

const OpenFiles& WaitReader::open_files() {
    std::call_once(files_once_, [this] {
        auto processes = scope_.processes;
        if (scope_.launcher != 0) processes.push_back(scope_.launcher);
        files_ = OpenFiles::read(processes, scope_.deadline, scope_.proc);
    });
    return files_;
}

const SocketTable& WaitReader::sockets() {
    std::call_once(sockets_once_, [this] { sockets_ = SocketTable::read(scope_.deadline); });
    return sockets_;
}

}  // namespace launch
}  // namespace ddprun
