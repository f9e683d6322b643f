#include "launcher/look/waits/wait_reader.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <shared_mutex>
#include <thread>

#include "launcher/look/process_memory.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

void wait_for_good() {
    for (;;) ::pause();
}

// For a child's child: ends with its parent, also where that is dead already.
void wait_with_parent(pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::getppid() == parent) ::pause();
    ::_exit(0);
}

// What the threads of a child share.
struct Shared {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    std::shared_mutex lock;
    std::atomic<bool> is_held{false};
};

// Begins a thread that takes both, and says its number.
void hold_in_thread(Shared& shared) {
    std::thread([&shared] {
        ::pthread_mutex_lock(&shared.mutex);
        shared.lock.lock();
        ::dprintf(STDOUT_FILENO, "%ld\n", ::syscall(SYS_gettid));
        shared.is_held = true;
        wait_for_good();
    }).detach();
    while (!shared.is_held) std::this_thread::yield();
}

Deadline far() { return std::chrono::steady_clock::now() + kHangGuard; }

Wait wait_now(pid_t pid, const std::vector<pid_t>& among, pid_t launcher) {
    WaitReader reader({among, launcher, far()});
    const ProcessView view = read_process_view(pid);
    const ThreadView* thread = view.main_thread();
    return reader.read(view, thread == nullptr ? ThreadView{} : *thread, ProcessMemory(pid));
}

// Looks until the main thread waits so; what it waits for then.
Wait await_wait(const OtherProcess& process, WaitKind kind, std::vector<pid_t> among = {},
                pid_t launcher = 0) {
    among.push_back(process.pid());
    for (const Deadline guard = far();;) {
        Wait wait = wait_now(process.pid(), among, launcher);
        if (wait.kind == kind && !(kind == WaitKind::child && wait.process == 0 && wait.thread == 0))
            return wait;
        INFO(words_of(wait) << " " << wait.system_call);
        REQUIRE(std::chrono::steady_clock::now() < guard);
    }
}

// A file without a name that two processes can lock, by descriptions of their own.
class SharedFile {
  public:
    SharedFile() : first_(::memfd_create("locked", 0)), path_("/proc/self/fd/" + std::to_string(first_)) {}
    SharedFile(const SharedFile&) = delete;
    SharedFile& operator=(const SharedFile&) = delete;
    ~SharedFile() { ::close(first_); }
    int open() const { return ::open(path_.c_str(), O_RDWR | O_CLOEXEC); }

  private:
    int first_;
    std::string path_;
};

// The ends of a connection over loopback.
std::pair<int, int> connect_over(int family) {
    sockaddr_storage address{};
    auto* name = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(sockaddr_in6);
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) reinterpret_cast<sockaddr_in6*>(name)->sin6_addr = in6addr_loopback;
    if (family == AF_INET) reinterpret_cast<sockaddr_in*>(name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listener = ::socket(family, SOCK_STREAM, 0), mine = ::socket(family, SOCK_STREAM, 0);
    REQUIRE(::bind(listener, name, size) == 0);
    REQUIRE(::listen(listener, 1) == 0);
    REQUIRE(::getsockname(listener, name, &size) == 0);
    REQUIRE(::connect(mine, name, size) == 0);
    const int other = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    return {mine, other};
}

std::string own_name(int socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const auto port = std::to_string(ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port));
    return (address.ss_family == AF_INET ? "127.0.0.1:" : "[::1]:") + port;
}

void read_for_good(int descriptor) {
    for (char byte = 0;;) {
        if (::recv(descriptor, &byte, 1, 0) <= 0) wait_for_good();
    }
}

}  // namespace

TEST_CASE("a wait: sleep, with an end and without") {
    const timespec long_time{1000, 0};
    const OtherProcess sleeper(
        [&] { ::nanosleep(&long_time, nullptr); });  // the sleep itself is tried, no event
    const Wait sleep = await_wait(sleeper, WaitKind::sleep);
    CHECK(sleep.is_timed);
    CHECK(words_of(sleep) == "sleeps");
    const OtherProcess pauser(wait_for_good);
    CHECK(await_wait(pauser, WaitKind::sleep).system_call.find("p") != std::string::npos);
}

TEST_CASE("a wait: a lock, and which thread holds it") {
    OtherProcess process([] {
        Shared shared;
        hold_in_thread(shared);
        ::pthread_mutex_lock(&shared.mutex);
    });
    const std::string holder = process.line();
    const Wait wait = await_wait(process, WaitKind::lock);
    CHECK(std::to_string(wait.thread) == holder);
    CHECK_FALSE(wait.is_timed);
    CHECK(words_of(wait) == "waits for a lock that thread " + holder + " holds");
}

TEST_CASE("a wait: a lock that is taken twice, a robust one, one of readers and writers") {
    const OtherProcess twice([] {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        for (;;) ::pthread_mutex_lock(&mutex);
    });
    const Wait own = await_wait(twice, WaitKind::lock);
    CHECK(own.thread == twice.pid());
    CHECK(words_of(own) == "waits for a lock that it holds itself");
    for (const bool is_robust : {true, false}) {
        OtherProcess process([=] {
            Shared shared;
            pthread_mutexattr_t kind;
            ::pthread_mutexattr_init(&kind);
            if (is_robust) ::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
            if (!is_robust) ::pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
            ::pthread_mutex_init(&shared.mutex, &kind);
            hold_in_thread(shared);
            ::pthread_mutex_lock(&shared.mutex);
        });
        CHECK(std::to_string(await_wait(process, WaitKind::lock).thread) == process.line());
    }
    for (const bool writes : {true, false}) {
        OtherProcess process([=] {
            Shared shared;
            hold_in_thread(shared);
            if (writes) shared.lock.lock();
            if (!writes) shared.lock.lock_shared();
        });
        CHECK(std::to_string(await_wait(process, WaitKind::lock).thread) == process.line());
    }
}

TEST_CASE("a wait: the end of a thread, of a process, of any child") {
    OtherProcess joiner([] {
        std::thread([] {
            ::dprintf(STDOUT_FILENO, "%ld\n", ::syscall(SYS_gettid));
            wait_for_good();
        }).join();
    });
    const std::string thread = joiner.line();
    CHECK(words_of(await_wait(joiner, WaitKind::child)) == "waits for the end of thread " + thread);
    for (const int way : {0, 1, 2, 3}) {
        OtherProcess parent([way] {
            const pid_t itself = ::getpid();
            const pid_t child = ::fork();
            if (child == 0) wait_with_parent(itself);
            ::dprintf(STDOUT_FILENO, "%d\n", child);
            if (way == 0) ::waitpid(child, nullptr, 0);
            if (way == 1) ::waitpid(-1, nullptr, 0);
            siginfo_t info{};
            if (way == 2) ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED);
            const auto pidfd = static_cast<id_t>(::syscall(SYS_pidfd_open, child, 0));
            if (way == 3) ::waitid(static_cast<idtype_t>(3), pidfd, &info, WEXITED);
        });
        const std::string child = parent.line();
        CHECK(std::to_string(await_wait(parent, WaitKind::child).process) == child);
    }
}

TEST_CASE("a wait: the program that a child of vfork() has not begun") {
    OtherProcess parent([] {
        const pid_t itself = ::getpid();
        if (::vfork() == 0) wait_with_parent(itself);
    });
    const Wait wait = await_wait(parent, WaitKind::child);
    CHECK(wait.process > parent.pid());
    ::kill(wait.process, SIGKILL);
}

TEST_CASE("a wait: connections to a port") {
    OtherProcess server([] {
        const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
        ::listen(listener, 1);
        sockaddr_in address{};
        socklen_t size = sizeof(address);
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
        ::dprintf(STDOUT_FILENO, "%d\n", ntohs(address.sin_port));
        ::accept(listener, nullptr, nullptr);
    });
    const std::string port = server.line();
    const Wait wait = await_wait(server, WaitKind::socket);
    CHECK(wait.is_listening);
    CHECK(words_of(wait) == "waits for a socket: connections to 0.0.0.0:" + port);
}

TEST_CASE("a wait: both ends of a connection, and which process has the other") {
    for (const int family : {AF_INET, AF_INET6}) {
        const auto [mine, others] = connect_over(family);
        const std::string own = own_name(mine), other = own_name(others);
        REQUIRE(::send(others, "abc", 3, 0) == 3);
        const OtherProcess reader([mine = mine, others = others] {
            ::close(others);
            read_for_good(mine);
        });
        REQUIRE(::send(mine, "abcde", 5, 0) == 5);
        const OtherProcess sleeper([mine = mine, others = others] {
            ::close(mine);
            ::pause();
        });
        ::close(mine);
        ::close(others);
        Wait wait = await_wait(reader, WaitKind::socket, {sleeper.pid()});
        REQUIRE(wait.own);
        REQUIRE(wait.other);
        // Until the other end's kernel has said that they have come.
        CHECK(wait.own->unsent <= 5);
        wait.own->unsent = wait.other->unsent = 0;
        CHECK(*wait.own == SocketEnd{own, 0, 0, 5, 3});
        CHECK(*wait.other == SocketEnd{other, 5, 0, 3, 5});
        CHECK(wait.process == sleeper.pid());
        CHECK(await_wait(reader, WaitKind::socket).process == 0);  // not among those that were asked about
    }
}

TEST_CASE("a wait: a socket between local processes, also by a name, and one in a poll") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    const OtherProcess reader([&] {
        ::close(ends[1]);
        read_for_good(ends[0]);
    });
    const OtherProcess poller([&] {
        ::close(ends[0]);
        pollfd one{ends[1], POLLIN, 0};
        ::poll(&one, 1, -1);
    });
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(await_wait(reader, WaitKind::socket, {poller.pid()}).process == poller.pid());
    const Wait poll = await_wait(poller, WaitKind::poll, {reader.pid()});
    CHECK(poll.process == reader.pid());
    CHECK_FALSE(poll.is_timed);

    const OtherProcess server([] {
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        const std::string text = "@look-test-" + std::to_string(::getpid());
        std::memcpy(name.sun_path + 1, text.data() + 1, text.size() - 1);
        const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
        ::bind(listener, reinterpret_cast<const sockaddr*>(&name), size);
        ::listen(listener, 1);
        ::accept(listener, nullptr, nullptr);
    });
    const Wait accept = await_wait(server, WaitKind::socket);
    REQUIRE(accept.own);
    CHECK(accept.own->address == "unix:@look-test-" + std::to_string(server.pid()));
}

TEST_CASE("a wait: polls, with an end and without") {
    const auto timed = [](const std::function<void()>& body, WaitKind kind = WaitKind::poll) {
        const OtherProcess process(body);
        return await_wait(process, kind).is_timed;
    };
    const auto poll_pipe = [](int limit) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) ::_exit(1);
        pollfd awaited{ends[0], POLLIN, 0};
        ::poll(&awaited, 1, limit);
    };
    CHECK(timed([&] { poll_pipe(1'000'000); }));
    CHECK_FALSE(timed([&] { poll_pipe(-1); }));
    // Of nothing at all.
    CHECK(timed([] { ::poll(nullptr, 0, 1'000'000); }, WaitKind::sleep));
    CHECK_FALSE(timed([] { ::select(0, nullptr, nullptr, nullptr, nullptr); }, WaitKind::sleep));
    const auto watch = [](int limit) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) ::_exit(1);
        const int epoll = ::epoll_create1(0);
        epoll_event event{EPOLLIN, {}};
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
        ::epoll_wait(epoll, &event, 1, limit);
    };
    CHECK(timed([&] { watch(1'000'000); }));
    const OtherProcess process([&] { watch(-1); });
    const Wait wait = await_wait(process, WaitKind::poll);
    CHECK_FALSE(wait.is_timed);
    CHECK(wait.object.starts_with("pipe:["));
    CHECK(wait.process == process.pid());
}

TEST_CASE("a wait: a pipe, by the process at its other end; a full one that the launcher reads is output") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const OtherProcess reader([&] {
        ::close(ends[1]);
        char byte = 0;
        if (::read(ends[0], &byte, 1) >= 0) wait_for_good();
    });
    const OtherProcess writer([&] {
        ::close(ends[0]);
        wait_for_good();
    });
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(await_wait(reader, WaitKind::pipe, {writer.pid()}).process == writer.pid());
    const OtherProcess printer({"yes"});
    CHECK(await_wait(printer, WaitKind::output, {}, ::getpid()).process == ::getpid());
    CHECK(await_wait(printer, WaitKind::pipe).system_call == "write");
}

TEST_CASE("a wait: a FIFO that no other process opens") {
    const std::string path = "/tmp/look-test-" + std::to_string(::getpid());
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const OtherProcess opener([&] {
        if (::open(path.c_str(), O_RDONLY) >= 0) wait_for_good();
    });
    CHECK(words_of(await_wait(opener, WaitKind::pipe)) == "waits for a pipe: " + path);
    ::unlink(path.c_str());
}

TEST_CASE("a wait: the lock of a file, and which process has it") {
    const SharedFile file;
    const auto by_flock = [&] { return ::flock(file.open(), LOCK_EX); };
    const auto by_command = [&](int command) {
        struct flock lock {};
        lock.l_type = F_WRLCK;
        return ::fcntl(file.open(), command, &lock);
    };
    for (const int way : {0, F_SETLKW, F_OFD_SETLKW}) {
        const auto lock = [&](int how) {
            if ((how == 0 ? by_flock() : by_command(how)) != 0) ::_exit(1);
        };
        OtherProcess holder([&] {
            lock(way == 0 ? 0 : F_SETLKW);
            ::dprintf(STDOUT_FILENO, "held\n");
            wait_for_good();
        });
        REQUIRE(holder.line() == "held");
        const OtherProcess waiter([&] { lock(way); });
        const Wait wait = await_wait(waiter, WaitKind::file_lock);
        INFO(way);
        CHECK(wait.process == holder.pid());
        CHECK(wait.path.starts_with("/memfd:locked"));
    }
}

TEST_CASE("a wait: what stops a process, and what has not begun or has ended") {
    const OtherProcess process(wait_for_good);
    REQUIRE(::kill(process.pid(), SIGSTOP) == 0);
    CHECK(words_of(await_wait(process, WaitKind::stopped)) == "is stopped");
    ::kill(process.pid(), SIGCONT);
    REQUIRE(::ptrace(PTRACE_SEIZE, process.pid(), nullptr, nullptr) == 0);
    REQUIRE(::ptrace(PTRACE_INTERRUPT, process.pid(), nullptr, nullptr) == 0);
    const Wait traced = await_wait(process, WaitKind::traced);
    CHECK(traced.process == ::getpid());
    CHECK(traced.object.find("look_test") != std::string::npos);
    REQUIRE(::ptrace(PTRACE_DETACH, process.pid(), nullptr, nullptr) == 0);
    CHECK(words_of(await_wait(process, WaitKind::starting, {}, ::getpid())) == "is being started");
    const OtherProcess gone([] { ::_exit(0); });
    CHECK(words_of(await_wait(gone, WaitKind::ended)) == "has ended");
    CHECK(wait_now(4'194'305, {}, 0).kind == WaitKind::ended);
}

TEST_CASE("a wait: whatever the arguments are, nothing but less is told") {
    const OtherProcess process(wait_for_good);
    const ProcessMemory memory(process.pid());
    WaitReader reader({{process.pid()}, ::getpid(), far()});
    ProcessView view = read_process_view(process.pid());
    REQUIRE(view.main_thread() != nullptr);
    ThreadView thread = *view.main_thread();
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
        for (long number = -1; number < 460; ++number) {
            thread.state = number % 2 == 0 ? 'S' : 'D';
            thread.system_call = number;
            thread.arguments.fill(value);
            CHECK_FALSE(words_of(reader.read(view, thread, memory)).empty());
        }
    }
}

}  // namespace ddprun
