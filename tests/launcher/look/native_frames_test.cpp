#include "launcher/look/native/native_frames.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "launcher/look/kernel_view.hpp"
#include "launcher/look/mounts.hpp"
#include "launcher/look/native/module_files.hpp"
#include "launcher/look/native/symbol_name.hpp"
#include "launcher/look/process_memory.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

Deadline hang_guard() { return std::chrono::steady_clock::now() + kHangGuard; }

using Names = std::vector<std::string>;

Names names_of(const NativeStack& stack) {
    Names names;
    for (const Frame& frame : stack.frames) names.push_back(frame.function);
    return names;
}

std::vector<NativeStack> stacks_of(pid_t pid, const MemoryReader& memory, Deadline deadline = hang_guard(),
                                   std::vector<std::string> avoided = {}) {
    std::vector<NativeThread> threads;
    for (const ThreadView& thread : read_process_view(pid).threads) {
        ThreadRegisters registers;
        registers.stack_pointer = thread.stack_pointer;
        registers.program_counter = thread.program_counter;
        threads.push_back({registers, &memory});
    }
    const auto mappings = read_mappings(pid);
    if (!mappings.has_value()) return {};
    return native_stacks({pid, deadline, std::move(avoided)}, *mappings, threads);
}

NativeStack main_stack(const OtherProcess& process) {
    process.await_state('S');
    return stacks_of(process.pid(), ProcessMemory(process.pid())).front();
}

bool contains_in_order(const Names& names, const Names& wanted) {
    auto place = names.begin();
    for (const std::string& name : wanted) {
        place = std::find(place, names.end(), name);
        if (place == names.end()) return false;
    }
    return true;
}

std::string joined(const Names& names) {
    std::string text;
    for (const std::string& name : names) text += name + "\n";
    return text;
}

const Names kWaiting = {"stub::Innermost::wait", "stub::outer", "main"};

void expect_stack(OtherProcess& process) {
    REQUIRE(process.line() == "ready");
    const NativeStack stack = main_stack(process);
    INFO(joined(names_of(stack)));
    CHECK(contains_in_order(names_of(stack), kWaiting));
    CHECK(stack.is_whole);
    for (const Frame& frame : stack.frames) CHECK(frame.native);
}

// Answers what it is asked, now and then by something else.
class SpoiltMemory final : public MemoryReader {
  public:
    SpoiltMemory(const MemoryReader& memory, unsigned seed) : memory_(memory), random_(seed) {}

    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        const auto dice = random_() % 4;
        if (dice == 0) return false;
        if (!memory_.read(address, into)) return false;
        for (std::size_t i = 0; dice == 1 && i < into.size(); i += 8)
            into[i] = static_cast<std::byte>(random_());
        for (std::size_t i = 0; dice == 2 && i < into.size(); ++i)
            into[i] = static_cast<std::byte>(random_());
        return true;
    }

  private:
    const MemoryReader& memory_;
    mutable std::mt19937 random_;
};

}  // namespace

TEST_CASE("native stacks: a function's name without its arguments") {
    CHECK(function_name("main") == "main");
    CHECK(function_name("memcpy@@GLIBC_2.14") == "memcpy");
    CHECK(function_name("_ZN4stub9Innermost4waitEi") == "stub::Innermost::wait");
    CHECK(function_name("_ZN12_GLOBAL__N_11fEi") == "(anonymous namespace)::f");
    CHECK(function_name("_ZN1AclEi") == "A::operator()");
    CHECK(function_name("_ZN1AlsEi") == "A::operator<<");
    CHECK(function_name("_ZZ4mainENKUlvE_clEv") == "main::{lambda()#1}::operator()");
    CHECK(function_name("_ZN1AC1ERKSt8functionIFviEE") == "A::A");
    CHECK(function_name("_Z1fIPFvvEEvT_") == "void f<void (*)()>");
    CHECK(function_name("_Znot") == "_Znot");
    CHECK(function_name("").empty());
}

TEST_CASE("native stacks: modules are the files with code, each from its first part to its last") {
    const auto mapping = [](std::uintptr_t begin, const char* permissions, std::uint64_t offset,
                            const char* path) {
        return Mapping{begin, begin + 0x1000, offset, permissions, path};
    };
    const std::vector<Module> modules =
        modules_of({mapping(0x1000, "r--p", 0, "/a"), mapping(0x2000, "r-xp", 0x1000, "/a"),
                    mapping(0x3000, "rw-p", 0, ""), mapping(0x4000, "rw-p", 0x3000, "/a"),
                    mapping(0x5000, "r--p", 0, "/data"), mapping(0x6000, "r-xp", 0, "[vdso]"),
                    mapping(0x7000, "rw-p", 0, "[stack]"), mapping(0x8000, "r-xp", 0, "/a")});
    REQUIRE(modules.size() == 3);
    CHECK(modules[0].path == "/a");
    CHECK(modules[0].begin == 0x1000);
    CHECK(modules[0].end == 0x5000);
    CHECK(modules[1].path == "[vdso]");
    CHECK(modules[2].begin == 0x8000);
}

TEST_CASE("native stacks: registers of both architectures by DWARF's numbers") {
    std::vector<std::uint64_t> words(34);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = 100 + i;
    const RegisterTable& x86 = register_table(Architecture::x86_64);
    const ThreadRegisters one = registers_of(words, x86);
    CHECK(one.program_counter == 116);
    CHECK(one.stack_pointer == 119);
    CHECK(in_dwarf_order(one, x86) == std::vector<std::uint64_t>{110, 112, 111, 105, 113, 114, 104, 119, 109,
                                                                 108, 107, 106, 103, 102, 101, 100, 116});
    const RegisterTable& arm = register_table(Architecture::aarch64);
    const ThreadRegisters other = registers_of(words, arm);
    CHECK(other.program_counter == 132);
    CHECK(other.stack_pointer == 131);
    REQUIRE(other.all.size() == 32);
    CHECK(other.all[arm.frame_pointer] == 129);
    CHECK(registers_of({1, 2, 3}, arm).all.empty());
    ThreadRegisters two;
    two.stack_pointer = 7;
    two.program_counter = 8;
    const auto few = in_dwarf_order(two, x86);
    CHECK(few[x86.stack_pointer] == 7);
    CHECK(few[x86.program_counter] == 8);
    CHECK(few[x86.frame_pointer] == 0);
    CHECK(in_dwarf_order(two, arm).size() == 32);
}

TEST_CASE(
    "native stacks: a program that waits, with and without symbols or frame pointers, and a static one") {
    for (const char* program : {DDPRUN_LOOK_STUB, DDPRUN_LOOK_STUB_STATIC, DDPRUN_LOOK_STUB_FRAMED}) {
        INFO(program);
        OtherProcess process({program, "wait"});
        expect_stack(process);
    }
    OtherProcess stripped({DDPRUN_LOOK_STUB_STRIPPED, "wait"});
    REQUIRE(stripped.line() == "ready");
    const NativeStack stack = main_stack(stripped);
    INFO(joined(names_of(stack)));
    CHECK(stack.is_whole);
    CHECK(stack.frames.size() >= 5);
    const bool is_told_by_place =
        std::any_of(stack.frames.begin(), stack.frames.end(), [](const Frame& frame) {
            return frame.function.starts_with("look_stub_stripped+0x") &&
                   frame.file == DDPRUN_LOOK_STUB_STRIPPED;
        });
    CHECK(is_told_by_place);
}

TEST_CASE("native stacks: every thread's, by one reading of the files") {
    OtherProcess process({DDPRUN_LOOK_STUB, "wait", "4"});
    REQUIRE(process.line() == "ready");
    process.await_state('S');
    const auto all_wait = [&] {
        const auto threads = read_process_view(process.pid()).threads;
        return threads.size() == 5 &&
               std::all_of(threads.begin(), threads.end(), [](const ThreadView& thread) {
                   return thread.state == 'S' && thread.system_call && *thread.system_call >= 0;
               });
    };
    while (!all_wait()) std::this_thread::yield();
    const auto stacks = stacks_of(process.pid(), ProcessMemory(process.pid()));
    REQUIRE(stacks.size() == 5);
    for (const NativeStack& stack : stacks) {
        INFO(joined(names_of(stack)));
        CHECK(contains_in_order(names_of(stack), {"stub::Innermost::wait", "stub::outer"}));
        CHECK(stack.is_whole);
    }
}

TEST_CASE("native stacks: a program that was removed, or that another mount namespace has") {
    const std::string copy = "/tmp/look-stub-" + std::to_string(::getpid());
    std::filesystem::copy_file(DDPRUN_LOOK_STUB, copy);
    OtherProcess removed({copy, "wait"});
    REQUIRE(removed.line() == "ready");
    std::filesystem::remove(copy);
    const NativeStack stack = main_stack(removed);
    REQUIRE_FALSE(stack.frames.empty());
    CHECK(stack.frames.front().function.find("sleep") != std::string::npos);

    OtherProcess hidden([] {
        const bool is_alone = ::unshare(CLONE_NEWNS) == 0 &&
                              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                              ::mount("none", "/mnt", "tmpfs", 0, nullptr) == 0;
        if (!is_alone) ::dprintf(STDOUT_FILENO, "no namespace\n");
        if (!is_alone) ::_exit(0);
        std::error_code error;
        std::filesystem::copy_file(DDPRUN_LOOK_STUB, "/mnt/look-stub", error);
        ::execl("/mnt/look-stub", "look-stub", "wait", nullptr);
    });
    const std::string said = hidden.line();
    if (said == "no namespace") {
        WARN("no mount namespace may be made here");
        return;
    }
    REQUIRE(said == "ready");
    const NativeStack inside = main_stack(hidden);
    INFO(joined(names_of(inside)));
    CHECK(contains_in_order(names_of(inside), kWaiting));
}

TEST_CASE("native stacks: a mount that is avoided is not opened, and a time that is over opens nothing") {
    OtherProcess process({DDPRUN_LOOK_STUB, "wait"});
    REQUIRE(process.line() == "ready");
    process.await_state('S');
    const ProcessMemory memory(process.pid());
    std::ifstream file("/proc/self/mountinfo");
    const std::string mounts{std::istreambuf_iterator<char>(file), {}};
    const auto stacks = stacks_of(process.pid(), memory, hang_guard(), {mount_of(mounts, DDPRUN_LOOK_STUB)});
    REQUIRE_FALSE(stacks.empty());
    CHECK(std::find(kWaiting.begin(), kWaiting.end(), "main") != kWaiting.end());
    CHECK_FALSE(contains_in_order(names_of(stacks.front()), kWaiting));
    const auto late = stacks_of(process.pid(), memory, std::chrono::steady_clock::now());
    REQUIRE_FALSE(late.empty());
    CHECK(late.front().frames.size() <= 1);
}

TEST_CASE("native stacks: whatever the memory holds, it ends") {
    OtherProcess process({DDPRUN_LOOK_STUB, "wait", "2"});
    REQUIRE(process.line() == "ready");
    process.await_state('S');
    const ProcessMemory memory(process.pid());
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto mappings = read_mappings(process.pid());
    REQUIRE(mappings.has_value());
    std::vector<NativeThread> threads;
    const SpoiltMemory spoilt(memory, seed);
    for (int repeat = 0; repeat < 500; ++repeat) {
        const Mapping& code = (*mappings)[random() % mappings->size()];
        ThreadRegisters registers;
        registers.program_counter = code.begin + random() % (code.end - code.begin);
        const Mapping& stack = (*mappings)[random() % mappings->size()];
        registers.stack_pointer = stack.begin + random() % (stack.end - stack.begin);
        for (int i = 0; repeat % 2 == 0 && i < 17; ++i)
            registers.all.push_back(random() * std::uint64_t{random()});
        threads.push_back({registers, &spoilt});
    }
    for (const NativeStack& stack : native_stacks({process.pid(), hang_guard()}, *mappings, threads))
        CHECK(stack.frames.size() <= kMaxFrames);
}

}  // namespace ddprun
