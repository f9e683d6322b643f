// Wait is what a thread waits for; settle_wait() decides that. Pure: what the kernel shows is an argument,
// and WaitReader asks for it. Texts have any bytes that a process may choose; harmless_line() makes them fit
// to be shown.
//
// A thread's state and system call alone make a SeenWait, which says what else has to be known (a
// descriptor's link, the words of a lock, ...). With these facts the sight becomes the wait. What is told by
// frames (a collective, a device) is refined_wait()'s.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/look/architecture.hpp"
#include "launcher/look/kernel_view.hpp"
#include "launcher/look/waits/system_calls.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

enum class WaitKind {
    running,  // on a processor, or ready for one
    sleep,
    lock,
    socket,
    pipe,
    output,     // a stream of its own that the launcher reads
    file_lock,  // flock(), fcntl()
    file,       // a file system
    child,      // the end of a process or of a thread
    poll,       // an event of one of several descriptors
    stopped,
    traced,
    device,      // a GPU
    collective,  // other ranks
    store,
    ended,
    starting,  // before exec
};
BOOST_DESCRIBE_ENUM(WaitKind, running, sleep, lock, socket, pipe, output, file_lock, file, child, poll,
                    stopped, traced, device, collective, store, ended, starting)

// SocketEnd is one end of a connection.
struct SocketEnd {
    std::string address;       // "10.0.0.1:4000", "[::1]:4000", "unix:/run/x"; empty: not known
    std::uint32_t unread = 0;  // bytes that have come and were not read
    std::uint32_t unsent = 0;  // bytes that were written and that the other end does not have yet
    std::uint64_t sent = 0;    // so far, of TCP
    std::uint64_t received = 0;

    bool operator==(const SocketEnd&) const = default;
};
BOOST_DESCRIBE_STRUCT(SocketEnd, (), (address, unread, unsent, sent, received))

struct Wait {
    WaitKind kind = WaitKind::running;
    bool is_timed = false;    // ends by itself after some time
    std::string system_call;  // its name; empty: none, or not known
    std::string object;       // what stands behind the kind's words; may be empty
    std::string path;         // of the file
    std::string mount;        // "/data (nfs4, server:/export)": where the file is
    // process: the one that is waited for: which holds the lock, has the other end, is the child or traces;
    // 0: not known. thread: likewise, of the same process.
    pid_t process = 0;
    pid_t thread = 0;
    bool is_listening = false;     // for a connection to `own`
    std::optional<SocketEnd> own;  // of a socket
    std::optional<SocketEnd> other;

    bool operator==(const Wait&) const = default;
};
BOOST_DESCRIBE_STRUCT(Wait, (),
                      (kind, is_timed, system_call, object, path, mount, process, thread, is_listening, own,
                       other))

// SeenWait is what a thread's state and system call say by themselves.
struct SeenWait {
    WaitKind kind = WaitKind::running;
    bool is_timed = false;
    const SystemCall* call = nullptr;
    std::optional<int> descriptor;  // what is waited for is behind it
    bool writes = false;            // into the descriptor
};

SeenWait sight_of(const ThreadView& thread, Architecture architecture = kOwnArchitecture);

// LockWords: what stands at a lock's address and behind it.
struct LockWords {
    std::uint32_t value = 0;
    std::uint32_t at_8 = 0;  // bytes behind the address
    std::uint32_t at_12 = 0;
    std::uint32_t at_16 = 0;
};

// LockOwner is a thread that a futex tells of.
struct LockOwner {
    pid_t thread = 0;         // 0: none
    bool is_awaited = false;  // its end is waited for; else it holds the lock

    bool operator==(const LockOwner&) const = default;
};

// Returns the thread that a wait in futex() is for, by the layouts of glibc's mutexes, locks of readers and
// writers, and of its threads. A number is believed if it is one of the `living` threads of this process.
LockOwner owner_of_lock(const ThreadView& waiter, const LockWords& words, const std::vector<pid_t>& living);

// WaitFacts: what was asked because of a sight; what nothing was found of stays as it is here.
struct WaitFacts {
    std::string link;  // of the descriptor, as in /proc/PID/fd
    std::string path;  // that the call names
    std::string mount;
    bool launcher_reads = false;  // the descriptor's other end is the launcher's
    LockOwner lock;
    pid_t process = 0;  // as in Wait
    std::string process_name;
    int children = 0;  // of which one is waited for
    int polled = 0;    // descriptors, likewise
    bool is_starting = false;
    bool is_listening = false;
    std::optional<SocketEnd> own;
    std::optional<SocketEnd> other;
};

Wait settle_wait(const ThreadView& thread, const SeenWait& sight, const WaitFacts& facts);

// Returns the kind's word in JSON: "file_lock".
std::string_view name_of(WaitKind kind);

// Returns the wait as people are told it: "waits for a lock that thread 4711 holds", "sleeps".
std::string words_of(const Wait& wait);

}  // namespace launch
}  // namespace ddprun
