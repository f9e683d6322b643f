// worker_stub: the one helper program of the tests; it behaves as the mode on its command line says.
//
//   worker_stub [--only-rank R MODE... else] MODE...
//
// With --only-rank, the process whose RANK is R takes the modes before `else`, every other one those behind
// it. Modes are carried out in order, and when they are used up the program exits 0. What is printed is whole
// lines, flushed at once, on stdout.
//
//   exit N              exits with code N, without running anything further
//   signal N            kills itself with signal N (its disposition reset to default first)
//   abort               calls abort()
//   say TEXT            prints TEXT
//   complain TEXT       prints TEXT on stderr
//   touch PATH          creates the file PATH
//   write-error-file FORM TEXT
//                       writes $TORCHELASTIC_ERROR_FILE with the message TEXT, as PyTorch's @record does
//                       (FORM `nested`, with a traceback) or in the other form (`flat`); TEXT goes into JSON
//                       as it is
//   ready-then-wait     prints "ready", then waits for a signal; all dispositions stay as they are
//   ignore-term         prints "ready" and waits; SIGTERM has no effect
//   exit-zero-on-term   prints "ready" and waits; SIGTERM ends it with code 0 ("got SIGTERM" is printed)
//   print-signals       prints "ready", then the name of every signal that arrives (all that can be caught);
//                       goes on until it is killed
//   stop-itself         prints "ready", then stops itself (SIGSTOP) and waits
//   print-place         prints "place 0 of 2 nodes, rank 1 of 4"
//   print-env           prints the environment, one NAME=VALUE a line, sorted; a newline in a value as \n
//   print-args ARGS...  prints every remaining argument as LENGTH:BYTES, one a line; takes all that follow
//   print-stdin         prints what stdin holds up to its end, then "eof"
//   fds                 prints the open descriptors, one number a line, in order
//   dispositions        prints "ignored NAME" and "blocked NAME" for every such signal, then "end"
//   session             prints "pid P ppid P pgid P sid P"
//   grandchild          forks a child into the same process group, which waits for a signal with default
//                       dispositions; prints "pid CHILD" once it waits, then goes on with the next mode
//   setsid-grandchild   forks a child in a session of its own, which ignores SIGTERM and waits; prints
//                       "pid CHILD" once it waits, then goes on with the next mode
//   daemon              the same, but the child's parent has ended before (a double fork)
//   orphans N           leaves N processes behind, one after the other, that end when their parent has ended;
//                       goes on with the next mode when the last one was started
//   fork MODE... end    forks a child into the same process group that carries out the modes and then exits
//                       with 0; prints nothing itself, goes on with the mode behind `end`
//   save-on-term PATH   prints "ready"; on SIGTERM waits until PATH exists, prints "saved" and exits 0
//   fail-when-file PATH prints "ready", waits until PATH exists (in a folder that is there) and exits with 7
//   wait-for-file PATH  waits until PATH exists, then goes on with the next mode
//   live N              a thread takes the slot that DDPRUN_LIFE names, under the life N (0: without having
//                       named it yet); goes on with the next mode when it has
//   wait-for-death      takes the slot that DDPRUN_LIFE names, as `live RANK+1000` does; waits until a lost
//                       life is announced, then goes on with the next mode
//   hold MIB            uses that much memory, which the kernel has to free when the process ends
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/system/shared_memory.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "tests/helpers/worker_stub_prints.hpp"

namespace {

constexpr int kFailWhenFileCode = 7;

[[noreturn]] void wait_for_ever() {
    for (;;) ::pause();
}

[[noreturn]] void kill_itself(int signal) {
    std::signal(signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
    ::kill(::getpid(), signal);
    wait_for_ever();
}

// Prints "ready" and returns once SIGTERM has come.
void await_term() {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &term, nullptr);
    say("ready");
    int received = 0;
    ::sigwait(&term, &received);
}

[[noreturn]] void exit_zero_on_term() {
    await_term();
    say("got SIGTERM");
    ::_exit(0);
}

[[noreturn]] void print_signals() {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    // Unlike sigwait, at every moment anybody can see that they are handled.
    const int signals = ::signalfd(-1, &all, SFD_CLOEXEC);
    if (signals < 0) refuse("cannot make a signalfd");
    say("ready");
    for (;;) {
        signalfd_siginfo received{};
        if (::read(signals, &received, sizeof received) == sizeof received) {
            say(name_of(static_cast<int>(received.ssi_signo)));
        }
    }
}

// Waits until every copy of the other end is closed; returns what was written to it before.
std::string read_to_end(int fd) {
    std::string text;
    char buffer[64];
    ssize_t count = 0;
    while ((count = ::read(fd, buffer, sizeof buffer)) > 0 || (count < 0 && errno == EINTR)) {
        if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    }
    ::close(fd);
    return text;
}

// Forks a process that prepares itself, tells its pid and waits. What forks it may itself be a child.
void wait_as_child(int ready, void (*prepare)()) {
    prepare();
    const std::string pid = std::to_string(::getpid());
    if (::write(ready, pid.data(), pid.size()) < 0) ::_exit(kUsage);
    ::close(ready);
    wait_for_ever();
}

void start_waiting_child(bool by_double_fork, void (*prepare)()) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) refuse("cannot make a pipe");
    const pid_t pid = ::fork();
    if (pid < 0) refuse("cannot fork");
    if (pid == 0) {
        ::close(ready[0]);
        if (by_double_fork && ::fork() != 0) ::_exit(0);
        wait_as_child(ready[1], prepare);
    }
    ::close(ready[1]);
    if (by_double_fork) ::waitpid(pid, nullptr, 0);
    say("pid " + read_to_end(ready[0]));
}

void prepare_nothing() {}

void prepare_daemon() {
    ::setsid();
    std::signal(SIGTERM, SIG_IGN);
}

void leave_orphans(int count) {
    for (int i = 0; i < count; ++i) {
        int ended[2];
        if (::pipe2(ended, O_CLOEXEC) != 0) refuse("cannot make a pipe");
        const pid_t parent = ::fork();
        if (parent < 0) refuse("cannot fork");
        if (parent == 0) {
            if (::fork() != 0) ::_exit(0);
            ::close(ended[1]);
            read_to_end(ended[0]);
            ::_exit(0);
        }
        ::waitpid(parent, nullptr, 0);
        ::close(ended[0]);
        ::close(ended[1]);
    }
}

// Returns once the file exists; its folder must exist before.
void wait_for_file(const std::string& path) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int watch = ::inotify_init1(IN_CLOEXEC);
    // Others may have all watches that the user may have.
    const bool is_watched =
        watch >= 0 && ::inotify_add_watch(watch, folder.c_str(), IN_CREATE | IN_MOVED_TO) >= 0;
    char events[4096];
    while (::access(path.c_str(), F_OK) != 0) {
        if (!is_watched) {
            ::usleep(10'000);  // No event tells when.
        } else if (::read(watch, events, sizeof events) <= 0 && errno != EINTR) {
            break;
        }
    }
    ::close(watch);
}

ddprun::LifeSlot own_seat() {
    const char* text = std::getenv(ddprun::kLifeVariable);
    const auto place = ddprun::parse_life_slot(text == nullptr ? "" : text);
    if (!place) refuse("DDPRUN_LIFE names no slot");
    return *place;
}

ddprun::LifeTable own_table() {
    auto table = ddprun::LifeTable::open(own_seat());
    if (!table) refuse("cannot open the table that DDPRUN_LIFE names");
    return std::move(*table);
}

// The thread holds the slot as long as the process lives.
void live(std::uint64_t life) {
    std::promise<bool> claimed;
    auto holds = claimed.get_future();
    std::thread([life, claimed = std::move(claimed)]() mutable {
        auto table = own_table();
        const int slot = own_seat().slot;
        const ddprun::RobustFutex futex(table.word(slot));
        claimed.set_value(futex.set() && table.claim(slot, life));
        wait_for_ever();
    }).detach();
    if (!holds.get()) refuse("cannot claim the slot");
}

void wait_for_death() {
    const char* rank = std::getenv("RANK");
    live(static_cast<std::uint64_t>(to_number(rank == nullptr ? "0" : rank)) + 1000);
    const auto table = own_table();
    const int slot = own_seat().slot;
    while (true) {
        const std::uint32_t rung = table.wakeups(slot);
        if (table.lost_count() > 0) return;
        table.wait_for_wakeup(slot, rung);
    }
}

void hold_memory(int mebibytes) {
    const std::size_t size = static_cast<std::size_t>(mebibytes) << 20;
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) refuse("not enough memory");
}

[[noreturn]] void save_on_term(const std::string& path) {
    await_term();
    wait_for_file(path);
    say("saved");
    ::_exit(0);
}

void touch(const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) refuse("cannot create " + path);
    ::close(fd);
}

void write_error_file(const std::string& form, const std::string& text) {
    const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "we");
    if (file == nullptr) refuse("cannot write $TORCHELASTIC_ERROR_FILE");
    std::fprintf(
        file,
        form == "flat"
            ? R"({"message": "%s", "timestamp": 1700000000})"
            : R"({"message": {"message": "%s", "extraInfo": {"py_callstack": "Traceback:\n  in stub\n", )"
              R"("timestamp": "1700000000"}}})",
        text.c_str());
    std::fclose(file);
}

// The arguments of the mode at `at`; moves `at` behind them.
std::string take(const Arguments& arguments, std::size_t& at) {
    if (at >= arguments.size()) refuse("an argument is missing behind '" + arguments.back() + "'");
    return arguments[at++];
}

void start_child(const Arguments& arguments, std::size_t& at);

bool print_something(const std::string& mode, const Arguments& arguments, std::size_t& at) {
    if (mode == "say") {
        say(take(arguments, at));
    } else if (mode == "complain") {
        std::fprintf(stderr, "%s\n", take(arguments, at).c_str());
    } else if (mode == "print-place") {
        print_place();
    } else if (mode == "print-env") {
        print_environment();
    } else if (mode == "print-args") {
        for (; at < arguments.size(); ++at) say(std::to_string(arguments[at].size()) + ":" + arguments[at]);
    } else if (mode == "print-stdin") {
        print_stdin();
    } else if (mode == "fds") {
        print_descriptors();
    } else if (mode == "dispositions") {
        print_dispositions();
    } else if (mode == "session") {
        print_session();
    } else {
        return false;
    }
    return true;
}

void act(const std::string& mode, const Arguments& arguments, std::size_t& at) {
    if (mode == "exit") ::_exit(to_number(take(arguments, at)));
    if (mode == "signal") kill_itself(to_number(take(arguments, at)));
    if (mode == "abort") std::abort();
    if (mode == "exit-zero-on-term") exit_zero_on_term();
    if (mode == "print-signals") print_signals();
    if (mode == "ready-then-wait" || mode == "ignore-term" || mode == "stop-itself") {
        if (mode == "ignore-term") std::signal(SIGTERM, SIG_IGN);
        say("ready");
        if (mode == "stop-itself") ::raise(SIGSTOP);
        wait_for_ever();
    }
    if (mode == "touch") {
        touch(take(arguments, at));
    } else if (mode == "write-error-file") {
        const std::string form = take(arguments, at);
        write_error_file(form, take(arguments, at));
    } else if (mode == "grandchild") {
        start_waiting_child(false, prepare_nothing);
    } else if (mode == "setsid-grandchild") {
        start_waiting_child(false, prepare_daemon);
    } else if (mode == "daemon") {
        start_waiting_child(true, prepare_daemon);
    } else if (mode == "orphans") {
        leave_orphans(to_number(take(arguments, at)));
    } else if (mode == "fork") {
        start_child(arguments, at);
    } else if (mode == "save-on-term") {
        save_on_term(take(arguments, at));
    } else if (mode == "live") {
        live(static_cast<std::uint64_t>(to_number(take(arguments, at))));
    } else if (mode == "wait-for-death") {
        wait_for_death();
    } else if (mode == "hold") {
        hold_memory(to_number(take(arguments, at)));
    } else if (mode == "wait-for-file") {
        wait_for_file(take(arguments, at));
    } else if (mode == "fail-when-file") {
        say("ready");
        wait_for_file(take(arguments, at));
        ::_exit(kFailWhenFileCode);
    } else if (!print_something(mode, arguments, at)) {
        refuse("unknown mode '" + mode + "'");
    }
}

void carry_out(const Arguments& arguments) {
    for (std::size_t at = 0; at < arguments.size();) {
        const std::string mode = arguments[at++];
        act(mode, arguments, at);
    }
}

void start_child(const Arguments& arguments, std::size_t& at) {
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = std::find(first, arguments.end(), "end");
    if (end == arguments.end()) refuse("fork needs 'end'");
    const pid_t pid = ::fork();
    if (pid < 0) refuse("cannot fork");
    if (pid == 0) {
        carry_out(Arguments(first, end));
        ::_exit(0);
    }
    at = static_cast<std::size_t>(end - arguments.begin()) + 1;
}

// Leaves the modes that this process has to carry out.
Arguments choose_by_rank(Arguments arguments) {
    if (arguments.empty() || arguments[0] != "--only-rank") return arguments;
    if (arguments.size() < 2) refuse("--only-rank needs a number");
    const int wanted = to_number(arguments[1]);
    const char* rank = std::getenv("RANK");
    const bool chosen = rank != nullptr && to_number(rank) == wanted;
    auto divider = std::find(arguments.begin() + 2, arguments.end(), "else");
    if (chosen) return Arguments(arguments.begin() + 2, divider);
    if (divider == arguments.end()) refuse("--only-rank needs 'else'");
    return choose_by_rank(Arguments(divider + 1, arguments.end()));
}

}  // namespace

int main(int argc, char** argv) {
    carry_out(choose_by_rank(Arguments(argv + 1, argv + argc)));
    return 0;
}
