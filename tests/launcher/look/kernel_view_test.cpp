#include "launcher/look/kernel_view.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launcher/look/mappings.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/other_user.hpp"

namespace ddprun {
namespace {

// The path of a file in memory, for as long as this lives.
class TextFile {
  public:
    explicit TextFile(std::string_view text) : fd_(::memfd_create("text", MFD_CLOEXEC)) {
        REQUIRE(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    TextFile(const TextFile&) = delete;
    TextFile& operator=(const TextFile&) = delete;
    ~TextFile() { ::close(fd_); }
    std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  private:
    int fd_;
};

void wait_for_ever() {
    for (;;) ::pause();
}

}  // namespace

TEST_CASE("a line of stat: number, name, state, ticks; whatever the name is") {
    ThreadView thread;
    REQUIRE(
        parse_thread_stat("12 (a) R (\n) S 1 2 3 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 777 0\n", thread));
    CHECK(thread.id == 12);
    CHECK(thread.name == "a) R (\n");
    CHECK(thread.state == 'S');
    CHECK(thread.cpu_ticks == 42);
    for (const char* line :
         {"", "12", "12 (sh)", "12 (sh) ", "12 (sh) S 1 2", "(sh) S 1 2 3 4 5 6 7 8 9 0 1 2 3", ")(",
          "1 (sh) S 1 2 3 0 -1 4 1 0 0 0 x 12 0", "1 (sh) SS 1 2 3 0 -1 4 1 0 0 0 30 12 0"}) {
        INFO(line);
        CHECK_FALSE(parse_thread_stat(line, thread));
    }
}

TEST_CASE("a line of syscall: a call, a wait outside of calls, a running thread") {
    ThreadView thread;
    REQUIRE(parse_system_call("202 0x1 0x189 0x2 0x0 0x0 0xffffffffffffffff 0x7ffe10 0x7f42\n", thread));
    CHECK(thread.system_call == 202);
    CHECK(thread.arguments == std::array<std::uint64_t, 6>{1, 0x189, 2, 0, 0, ~std::uint64_t{0}});
    CHECK(thread.stack_pointer == 0x7ffe10);
    CHECK(thread.program_counter == 0x7f42);
    REQUIRE(parse_system_call("-1 0x7ffe20 0x7f43\n", thread));
    CHECK(thread.system_call == -1);
    CHECK(thread.arguments == std::array<std::uint64_t, 6>{});
    CHECK(thread.stack_pointer == 0x7ffe20);
    CHECK(thread.program_counter == 0x7f43);
    REQUIRE(parse_system_call("running\n", thread));
    CHECK_FALSE(thread.system_call.has_value());
    for (const char* line : {"", "\n", "202", "202 0x1", "-1 0x1", "x 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8",
                             "1 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9", "1 0x1 2 0x3 0x4 0x5 0x6 0x7 0x8",
                             "1 0x1 0x 0x3 0x4 0x5 0x6 0x7 0x11112222333344445"}) {
        INFO(line);
        CHECK_FALSE(parse_system_call(line, thread));
    }
}

TEST_CASE("the tracer in status") {
    CHECK(tracer_in_status("Name:\tx\nTracerPid:\t77\nUid:\t0\n") == 77);
    CHECK(tracer_in_status("Name:\tx\nTracerPid:\t0\n") == 0);
    CHECK(tracer_in_status("Name:\tTracerPid: 5\n") == 0);
    CHECK(tracer_in_status("") == 0);
}

TEST_CASE("a line of maps") {
    const auto file =
        parse_mapping("7f10-7f20 r-xp 00001000 fe:00 1234                   /usr/a b\\012c (deleted)");
    REQUIRE(file.has_value());
    CHECK(file->begin == 0x7f10);
    CHECK(file->end == 0x7f20);
    CHECK(file->permissions == "r-xp");
    CHECK(file->offset == 0x1000);
    CHECK(file->path == "/usr/a b\nc (deleted)");
    CHECK(file->holds(0x7f10));
    CHECK_FALSE(file->holds(0x7f20));
    CHECK(parse_mapping("7f10-7f20 rw-p 00000000 00:00 0 ")->path.empty());
    CHECK(parse_mapping("7f10-7f20 rw-p 00000000 00:00 0")->path.empty());
    CHECK(parse_mapping("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]")->path ==
          "[vsyscall]");
    for (const char* line :
         {"", "7f10", "7f10-7f20", "7f20-7f10 rw-p 0 00:00 0", "7f10-7f10 rw-p 0 00:00 0",
          "7f10-7f20 rw 0 00:00 0", "7f10-7g20 rw-p 0 00:00 0", "7f10-7f20 rw-p x 00:00 0"}) {
        INFO(line);
        CHECK_FALSE(parse_mapping(line).has_value());
    }
    const std::vector<Mapping> several = {{0x10, 0x20, 0, "r--p", "a"}, {0x30, 0x40, 0, "r--p", "b"}};
    CHECK(mapping_of(several, 0x3f)->path == "b");
    CHECK(mapping_of(several, 0x10)->path == "a");
    for (const std::uintptr_t hole : {0x0, 0xf, 0x20, 0x2f, 0x40})
        CHECK(mapping_of(several, hole) == nullptr);
}

TEST_CASE("a process that waits, is stopped, has ended, is gone") {
    OtherProcess child(wait_for_ever);
    child.await_state('S');
    auto view = read_process_view(child.pid());
    CHECK(view.is_there);
    CHECK_FALSE(view.ended());
    CHECK(view.tracer == 0);
    CHECK(view.why_unreadable.empty());
    REQUIRE(view.main_thread() != nullptr);
    CHECK(view.main_thread()->system_call.has_value());
    const auto mappings = read_mappings(child.pid());
    REQUIRE(mappings.has_value());
    const auto* stack = mapping_of(*mappings, view.main_thread()->stack_pointer);
    REQUIRE(stack != nullptr);
    CHECK(stack->path == "[stack]");
    const auto* code = mapping_of(*mappings, view.main_thread()->program_counter);
    REQUIRE(code != nullptr);
    CHECK(code->permissions == "r-xp");

    ::kill(child.pid(), SIGSTOP);
    child.await_state('T');
    view = read_process_view(child.pid());
    REQUIRE(view.main_thread() != nullptr);
    CHECK(view.main_thread()->state == 'T');
    CHECK(view.main_thread()->stack_pointer != 0);

    ::kill(child.pid(), SIGKILL);
    child.await_state('Z');
    view = read_process_view(child.pid());
    CHECK(view.is_there);
    CHECK(view.ended());
    CHECK(view.why_unreadable == "process " + std::to_string(child.pid()) + " has ended");

    ::waitpid(child.pid(), nullptr, 0);
    view = read_process_view(child.pid());
    CHECK_FALSE(view.is_there);
    CHECK(view.ended());
    CHECK(view.threads.empty());
    CHECK(view.why_unreadable == "process " + std::to_string(child.pid()) + " has ended");
    CHECK(read_mappings(child.pid()).error().value() == ENOENT);
}

TEST_CASE("a process that runs") {
    OtherProcess child([] {
        for (volatile int turn = 0;;) turn = turn + 1;
    });
    child.await_state('R');
    const auto view = read_process_view(child.pid());
    REQUIRE(view.main_thread() != nullptr);
    CHECK(view.main_thread()->state == 'R');
    CHECK_FALSE(view.main_thread()->system_call.has_value());
    CHECK(view.main_thread()->wait_channel.empty());
    CHECK(view.why_unreadable.empty());
    CHECK(view.name == "look_test");
}

TEST_CASE("a process that may not be read stays in the view, with the reason and Yama's value") {
    if (!can_be_other_user()) return;
    OtherProcess child(wait_for_ever);
    child.await_state('S');
    const TextFile yama("2\n");
    const std::string found = in_other_process([&]() -> std::string {
        if (::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) return "no other user";
        const KernelFiles files{.yama = yama.path()};
        const auto view = read_process_view(child.pid(), files);
        const auto* main = view.main_thread();
        if (main == nullptr || main->state != 'S' || main->system_call || main->name != "look_test")
            return "other";
        return view.why_unreadable;
    });
    CHECK(found.starts_with("the kernel does not let this process read process "));
    CHECK(found.ends_with("; kernel.yama.ptrace_scope is 2, which asks for the capability SYS_PTRACE"));
}

TEST_CASE("the reasons in words") {
    const auto reason = [](std::string_view yama) {
        const TextFile file(yama);
        return to_reason(12, EPERM, {.yama = file.path()});
    };
    const std::string refused =
        "the kernel does not let this process read process 12: Operation not permitted";
    CHECK(reason("0\n") == refused);
    CHECK(reason("") == refused);
    CHECK(reason("x") == refused);
    CHECK(reason("1\n") == refused + "; kernel.yama.ptrace_scope is 1, which lets only its ancestors");
    CHECK(reason("3\n") == refused + "; kernel.yama.ptrace_scope is 3, which lets no process");
    CHECK(to_reason(12, EPERM, {.yama = "/missing"}) == refused);
    CHECK(to_reason(12, ESRCH) == "process 12 has ended");
    CHECK(to_reason(12, EMSGSIZE) == "process 12 cannot be read: Message too long");
}

}  // namespace ddprun
