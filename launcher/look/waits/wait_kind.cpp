#include "launcher/look/waits/wait_kind.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace launch {
namespace {

struct KindRow {
    WaitKind kind;
    std::string_view name;
    std::string_view words;
    std::string_view joint;  // between the words and the object
};

constexpr KindRow kKinds[] = {
    {WaitKind::running, "running", "runs", ": "},
    {WaitKind::sleep, "sleep", "sleeps", ": "},
    {WaitKind::lock, "lock", "waits for a lock", " that "},
    {WaitKind::socket, "socket", "waits for a socket", ": "},
    {WaitKind::pipe, "pipe", "waits for a pipe", ": "},
    {WaitKind::output, "output", "waits for its output to be read", ": "},
    {WaitKind::file_lock, "file_lock", "waits for the lock of a file", ": "},
    {WaitKind::file, "file", "waits for a file system", ": "},
    {WaitKind::child, "child", "waits for the end of", " "},
    {WaitKind::poll, "poll", "waits for an event", ": "},
    {WaitKind::stopped, "stopped", "is stopped", ": "},
    {WaitKind::traced, "traced", "is traced", " by "},
    {WaitKind::device, "device", "waits for a device", ": "},
    {WaitKind::collective, "collective", "waits for other ranks", ": "},
    {WaitKind::store, "store", "waits for the store", ": "},
    {WaitKind::ended, "ended", "has ended", ": "},
    {WaitKind::starting, "starting", "is being started", ": "},
};

const KindRow& row_of(WaitKind kind) {
    const auto row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const KindRow& one) { return one.kind == kind; });
    check(row != std::end(kKinds), "a kind of wait has no words");
    return *row;
}

struct ChannelRow {
    std::string_view begin;  // of the kernel function's name
    WaitKind kind;
};

// What the function says in which a thread waits, where its call says nothing: the first row that fits.
constexpr ChannelRow kChannels[] = {
    {"hrtimer_nanosleep", WaitKind::sleep},
    {"common_nsleep", WaitKind::sleep},
    {"do_nanosleep", WaitKind::sleep},
    {"sigsuspend", WaitKind::sleep},
    {"futex", WaitKind::lock},
    {"rwsem_down", WaitKind::lock},
    {"__mutex_lock", WaitKind::lock},
    {"inet_csk_accept", WaitKind::socket},
    {"inet_stream_connect", WaitKind::socket},
    {"tcp_", WaitKind::socket},
    {"sk_", WaitKind::socket},
    {"unix_", WaitKind::socket},
    {"__skb_wait", WaitKind::socket},
    {"skb_wait", WaitKind::socket},
    {"pipe_", WaitKind::pipe},
    {"anon_pipe_", WaitKind::pipe},
    {"fifo_open", WaitKind::pipe},
    {"wait_for_partner", WaitKind::pipe},
    {"n_tty_", WaitKind::pipe},
    {"locks_lock", WaitKind::file_lock},
    {"flock_lock", WaitKind::file_lock},
    {"fcntl_setlk", WaitKind::file_lock},
    {"do_wait", WaitKind::child},
    {"kernel_wait", WaitKind::child},
    {"poll_schedule", WaitKind::poll},
    {"do_poll", WaitKind::poll},
    {"do_sys_poll", WaitKind::poll},
    {"do_select", WaitKind::poll},
    {"ep_poll", WaitKind::poll},
    {"do_epoll", WaitKind::poll},
    {"request_wait_answer", WaitKind::file},
    {"fuse_", WaitKind::file},
    {"nfs", WaitKind::file},
    {"rpc_", WaitKind::file},
    {"cifs_", WaitKind::file},
    {"io_schedule", WaitKind::file},
    {"folio_wait", WaitKind::file},
    {"wait_on_page", WaitKind::file},
};

std::optional<WaitKind> kind_of_channel(std::string_view channel) {
    for (const ChannelRow& row : kChannels) {
        if (channel.starts_with(row.begin)) return row.kind;
    }
    return std::nullopt;
}

// A device waits in state D for no file; else nothing more is known than that something has to happen.
WaitKind kind_by_state(const ThreadView& thread) {
    const auto kind = kind_of_channel(thread.wait_channel);
    return kind ? *kind : thread.state == 'D' ? WaitKind::file : WaitKind::poll;
}

struct LinkRow {
    std::string_view begin;
    WaitKind kind;
};

constexpr LinkRow kLinks[] = {
    {"socket:", WaitKind::socket},    {"pipe:", WaitKind::pipe},
    {"anon_inode:", WaitKind::poll},  {"/dev/nvidia", WaitKind::device},
    {"/dev/kfd", WaitKind::device},   {"/dev/dri/", WaitKind::device},
    {"/dev/pts/", WaitKind::pipe},    {"/dev/tty", WaitKind::pipe},
    {"/dev/console", WaitKind::pipe}, {"/", WaitKind::file},
};

WaitKind kind_of_link(const ThreadView& thread, std::string_view link) {
    for (const LinkRow& row : kLinks) {
        if (!link.starts_with(row.begin)) continue;
        // A FIFO has a path, too.
        const bool is_fifo =
            row.kind == WaitKind::file && kind_of_channel(thread.wait_channel) == WaitKind::pipe;
        return is_fifo ? WaitKind::pipe : row.kind;
    }
    return kind_by_state(thread);
}

bool waits_for_lock(std::uint64_t command) {
    constexpr std::uint64_t kSetLockAndWait = 7, kSetOpenFileLockAndWait = 38;  // F_SETLKW, F_OFD_SETLKW
    return command == kSetLockAndWait || command == kSetOpenFileLockAndWait;
}

WaitKind kind_of_call(const ThreadView& thread, const SystemCall& call) {
    switch (call.shape) {
        case CallShape::sleep: return WaitKind::sleep;
        case CallShape::futex:
        case CallShape::lock: return WaitKind::lock;
        case CallShape::accept:
        case CallShape::socket: return WaitKind::socket;
        case CallShape::path:  // a FIFO waits for its other end
            return kind_of_channel(thread.wait_channel) == WaitKind::pipe ? WaitKind::pipe : WaitKind::file;
        case CallShape::flock: return WaitKind::file_lock;
        case CallShape::fcntl:
            return waits_for_lock(thread.arguments[1]) ? WaitKind::file_lock : WaitKind::file;
        case CallShape::wait4:
        case CallShape::waitid: return WaitKind::child;
        case CallShape::fork: return thread.state == 'D' ? WaitKind::child : WaitKind::running;
        // Of no descriptor at all it is a sleep, as pause() is on aarch64.
        case CallShape::poll: return thread.arguments[1] == 0 ? WaitKind::sleep : WaitKind::poll;
        case CallShape::select: return thread.arguments[0] == 0 ? WaitKind::sleep : WaitKind::poll;
        case CallShape::epoll:
        case CallShape::queue: return WaitKind::poll;
        case CallShape::descriptor:
        case CallShape::restarted: break;
    }
    return kind_by_state(thread);
}

bool is_about_descriptor(CallShape shape) {
    constexpr CallShape kShapes[] = {CallShape::accept, CallShape::socket, CallShape::descriptor,
                                     CallShape::flock,  CallShape::fcntl,  CallShape::epoll};
    return std::find(std::begin(kShapes), std::end(kShapes), shape) != std::end(kShapes);
}

std::string process_text(const WaitFacts& facts) {
    return facts.process_name.empty() ? fmt::format("process {}", facts.process)
                                      : fmt::format("process {} ({})", facts.process, facts.process_name);
}

std::string held_by(std::string object, const WaitFacts& facts) {
    return facts.process == 0 ? object : fmt::format("{}, which {} has", object, process_text(facts));
}

std::string socket_text(const WaitFacts& facts) {
    if (!facts.own) return {};
    const std::string own = facts.own->address.empty() ? "an unknown address" : facts.own->address;
    if (facts.is_listening) return fmt::format("connections to {}", own);
    if (!facts.other || facts.other->address.empty()) return held_by("a connection", facts);
    return held_by(fmt::format("{} from {}", facts.other->address, own), facts);
}

std::string poll_text(const WaitFacts& facts) {
    if (facts.own) return socket_text(facts);
    return facts.polled > 1 ? fmt::format("one of {} descriptors", facts.polled) : facts.link;
}

std::string child_text(const WaitFacts& facts) {
    if (facts.lock.thread != 0) return fmt::format("thread {}", facts.lock.thread);
    if (facts.process != 0) return process_text(facts);
    return facts.children > 1 ? fmt::format("one of {} children", facts.children) : "a child";
}

std::string lock_text(const ThreadView& thread, const WaitFacts& facts) {
    if (facts.lock.thread == 0) return {};
    return facts.lock.thread == thread.id ? "it holds itself"
                                          : fmt::format("thread {} holds", facts.lock.thread);
}

std::string file_text(const ThreadView& thread, const Wait& wait) {
    if (!wait.path.empty())
        return wait.mount.empty() ? wait.path : fmt::format("{} on {}", wait.path, wait.mount);
    const bool has_place = !thread.wait_channel.empty();
    return wait.mount.empty() ? has_place ? "in " + thread.wait_channel : "" : wait.mount;
}

std::string object_text(const ThreadView& thread, const Wait& wait, const WaitFacts& facts) {
    switch (wait.kind) {
        case WaitKind::lock: return lock_text(thread, facts);
        case WaitKind::child: return child_text(facts);
        case WaitKind::socket: return socket_text(facts);
        case WaitKind::file: return file_text(thread, wait);
        case WaitKind::file_lock: return held_by(file_text(thread, wait), facts);
        case WaitKind::pipe:
        case WaitKind::output:
        case WaitKind::device: return held_by(facts.link.empty() ? facts.path : facts.link, facts);
        case WaitKind::poll: return poll_text(facts);
        case WaitKind::traced: return facts.process == 0 ? "another process" : process_text(facts);
        case WaitKind::running:
        case WaitKind::sleep:
        case WaitKind::stopped:
        case WaitKind::collective:
        case WaitKind::store:
        case WaitKind::ended:
        case WaitKind::starting: break;
    }
    return {};
}

}  // namespace

SeenWait sight_of(const ThreadView& thread, Architecture architecture) {
    SeenWait sight;
    switch (thread.state) {
        case 'R': return sight;
        case 'Z':
        case 'X': sight.kind = WaitKind::ended; return sight;
        case 'T': sight.kind = WaitKind::stopped; return sight;
        case 't': sight.kind = WaitKind::traced; return sight;
        default: break;
    }
    sight.call = thread.system_call ? find_system_call(*thread.system_call, architecture) : nullptr;
    if (sight.call == nullptr) {
        sight.kind = kind_by_state(thread);
        return sight;
    }
    sight.kind = kind_of_call(thread, *sight.call);
    sight.is_timed = is_timed(*sight.call, thread.arguments);
    if (is_about_descriptor(sight.call->shape)) sight.descriptor = static_cast<int>(thread.arguments[0]);
    const std::string_view name = sight.call->name;
    sight.writes = name.find("write") != std::string_view::npos || name.starts_with("send");
    return sight;
}

LockOwner owner_of_lock(const ThreadView& waiter, const LockWords& words, const std::vector<pid_t>& living) {
    const auto lives = [&](std::uint32_t number) {
        return number != 0 &&
               std::find(living.begin(), living.end(), static_cast<pid_t>(number)) != living.end();
    };
    const auto operation = static_cast<int>(waiter.arguments[1]) & FUTEX_CMD_MASK;
    const std::uint32_t number = words.value & FUTEX_TID_MASK;
    constexpr int kLockPi2 = 13;  // FUTEX_LOCK_PI2, younger than the headers
    const bool inherits = operation == FUTEX_LOCK_PI || operation == kLockPi2;
    // The word itself has the owner: of a robust lock, or of one that lends its priority.
    if ((inherits || (words.value & FUTEX_WAITERS) != 0) && lives(number))
        return {static_cast<pid_t>(number), false};
    constexpr std::uint32_t kContended = 2;     // a mutex with waiters: lock, count, owner
    constexpr std::uint32_t kWriterInside = 3;  // one of the two futexes of a lock of readers and writers
    if (words.value == kContended && lives(words.at_8)) return {static_cast<pid_t>(words.at_8), false};
    if (words.value == kWriterInside) {
        for (const std::uint32_t writer : {words.at_16, words.at_12}) {
            if (lives(writer)) return {static_cast<pid_t>(writer), false};
        }
    }
    // The kernel clears a thread's number when it ends, and wakes whichever thread joins it.
    const bool joins = words.value == static_cast<std::uint32_t>(waiter.arguments[2]) && lives(words.value) &&
                       static_cast<pid_t>(words.value) != waiter.id;
    return joins ? LockOwner{static_cast<pid_t>(words.value), true} : LockOwner{};
}

Wait settle_wait(const ThreadView& thread, const SeenWait& sight, const WaitFacts& facts) {
    Wait wait;
    wait.kind = sight.kind;
    wait.is_timed = sight.is_timed;
    if (sight.call != nullptr) wait.system_call = sight.call->name;
    if (sight.call != nullptr && sight.call->shape == CallShape::descriptor)
        wait.kind = kind_of_link(thread, facts.link);
    const int descriptor = sight.descriptor.value_or(0);
    const bool is_stream = descriptor == STDOUT_FILENO || descriptor == STDERR_FILENO;
    const bool is_pipe = wait.kind == WaitKind::pipe || wait.kind == WaitKind::socket;
    if (is_pipe && is_stream && sight.writes && facts.launcher_reads) wait.kind = WaitKind::output;
    if (facts.is_starting && wait.kind != WaitKind::ended) wait.kind = WaitKind::starting;
    if (wait.kind == WaitKind::lock && facts.lock.is_awaited) wait.kind = WaitKind::child;
    wait.path = facts.link.starts_with('/') ? facts.link : facts.path;
    wait.mount = facts.mount;
    wait.process = facts.process;
    wait.thread = facts.lock.thread;
    wait.is_listening = facts.is_listening;
    wait.own = facts.own;
    wait.other = facts.other;
    wait.object = object_text(thread, wait, facts);
    return wait;
}

std::string_view name_of(WaitKind kind) { return row_of(kind).name; }

std::string words_of(const Wait& wait) {
    const KindRow& row = row_of(wait.kind);
    return wait.object.empty() ? std::string(row.words)
                               : fmt::format("{}{}{}", row.words, row.joint, wait.object);
}

}  // namespace launch
}  // namespace ddprun
