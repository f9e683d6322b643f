#include "launcher/look/python_frames.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <set>
#include <thread>

#include "tests/launcher/look/forbidden_calls.hpp"
#include "tests/launcher/look/python_program.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using Marks = std::vector<std::string>;

const PythonThread* thread_of(const PythonStacks& stacks, pid_t id) {
    const auto found = std::find_if(stacks.threads.begin(), stacks.threads.end(),
                                    [id](const PythonThread& one) { return one.id == id; });
    return found == stacks.threads.end() ? nullptr : &*found;
}

// Reads until the stacks are as they should be, or the hang guard ends: what is told last.
PythonStacks await_stacks(const PythonProgram& program,
                          const std::function<bool(const PythonStacks&)>& wanted) {
    const auto limit = std::chrono::steady_clock::now() + kHangGuard;
    for (;;) {
        auto stacks = program.stacks();
        REQUIRE(stacks.has_value());
        REQUIRE(stacks->why_not == "");
        if (wanted(*stacks) || std::chrono::steady_clock::now() > limit) return *stacks;
        std::this_thread::yield();
    }
}

// Of the main thread, with no other frames of the program.
void check_main(const std::string& python, const std::string& way, const Marks& marks) {
    INFO(python << " " << way);
    const PythonProgram program(python, way);
    const auto expected = marked_frames(marks);
    const auto stacks = await_stacks(program, [&](const PythonStacks& seen) {
        const auto* main = thread_of(seen, program.pid());
        // What it prints comes a moment before it waits.
        return main != nullptr && own_frames(*main) == expected && !main->has_lock;
    });
    const auto* main = thread_of(stacks, program.pid());
    REQUIRE(main != nullptr);
    CHECK(own_frames(*main) == expected);
    CHECK_FALSE(main->is_torn);
    CHECK_FALSE(main->is_cut);
    CHECK_FALSE(main->has_lock);
    CHECK_FALSE(stacks.is_cut);
    CHECK_FALSE(stacks.collecting);
}

// Returns the minor version: "3.12.1" has 12.
int minor_in(const PythonStacks& stacks) { return std::stoi(stacks.version.substr(2)); }

std::string functions_of(const PythonThread& thread) {
    std::string text;
    for (const auto& frame : thread.frames) text += frame.function + ' ';
    return text;
}

}  // namespace

TEST_CASE("Python: a nested call that sleeps, a generator, a native call") {
    const auto all = pythons();
    if (all.empty()) WARN("no Python on this machine");
    for (const auto& python : all) {
        check_main(python, "sleep", {"wait", "outer", "main"});
        check_main(python, "generator", {"wait", "fetch", "all", "in_generator", "main"});
        check_main(python, "native", {"in_native_call", "main"});
    }
}

TEST_CASE("Python: threads have their own stacks, and their numbers") {
    for (const auto& python : pythons()) {
        INFO(python);
        const PythonProgram program(python, "thread");
        const auto joined = marked_frames({"in_thread", "main"}), waits = marked_frames({"wait"});
        const auto stacks = await_stacks(program, [&](const PythonStacks& seen) {
            return seen.threads.size() == 2 && own_frames(seen.threads[0]) == waits &&
                   own_frames(seen.threads[1]) == joined;
        });
        REQUIRE(stacks.threads.size() == 2);
        CHECK(own_frames(stacks.threads[0]) == waits);
        CHECK(own_frames(stacks.threads[1]) == joined);
        CHECK(stacks.threads[1].id == program.pid());
        CHECK(::access(fmt::format("/proc/{}/task/{}", program.pid(), stacks.threads[0].id).c_str(), F_OK) ==
              0);
        CHECK(stacks.threads[0].id != program.pid());
    }
}

TEST_CASE("Python: names of functions and files in any script") {
    for (const auto& python : pythons()) {
        check_main(python, "names", {"wait", "數", "größe", "main"});
        const PythonProgram program(python, "names");
        const auto stacks = program.stacks();
        REQUIRE(stacks.has_value());
        const auto* main = thread_of(*stacks, program.pid());
        REQUIRE(main != nullptr);
        REQUIRE(main->frames.size() >= 3);
        CHECK(main->frames[1] == Frame{"<module>", "/𝔣/größe.py", 1, false});
        CHECK(main->frames[2].function == (minor_in(*stacks) < 11 ? "數" : "Loader.數"));
    }
}

TEST_CASE("Python: two threads of which one waits for the interpreter's lock") {
    for (const auto& python : pythons()) {
        INFO(python);
        const PythonProgram program(python, "lock");
        const auto holders = [](const PythonStacks& seen) {
            return std::count_if(seen.threads.begin(), seen.threads.end(),
                                 [](const PythonThread& one) { return one.has_lock; });
        };
        const auto stacks = await_stacks(program, [&](const PythonStacks& seen) {
            return seen.threads.size() == 2 && holders(seen) == 1 &&
                   own_frames(seen.threads[0]) == marked_frames({"spin"}) &&
                   own_frames(seen.threads[1]) == marked_frames({"spin", "in_two_that_run", "main"});
        });
        REQUIRE(stacks.threads.size() == 2);
        CHECK(holders(stacks) == 1);
        CHECK(own_frames(stacks.threads[0]) == marked_frames({"spin"}));
        CHECK(own_frames(stacks.threads[1]) == marked_frames({"spin", "in_two_that_run", "main"}));
    }
}

TEST_CASE("Python: of a deep stack the innermost frames") {
    for (const auto& python : pythons()) {
        INFO(python);
        const PythonProgram program(python, "deep");
        const auto stacks = program.stacks();
        REQUIRE(stacks.has_value());
        const auto* main = thread_of(*stacks, program.pid());
        REQUIRE(main != nullptr);
        CHECK(main->is_cut);
        CHECK_FALSE(main->is_torn);
        REQUIRE(main->frames.size() == kMaxFrames);
        CHECK(main->frames.front().function == "wait");
        CHECK(main->frames.back().function == "deep");
        CHECK(main->frames.back().line == marked_line("deep"));
    }
}

TEST_CASE("Python: the collector runs, as 3.13 and later tell") {
    for (const auto& python : pythons()) {
        INFO(python);
        const PythonProgram program(python, "collection");
        const auto stacks = program.stacks();
        REQUIRE(stacks.has_value());
        CHECK(stacks->collecting == (minor_in(*stacks) >= 13));
        const auto* main = thread_of(*stacks, program.pid());
        REQUIRE(main != nullptr);
        CHECK(own_frames(*main).ends_with(marked_frames({"__del__", "in_collection", "main"})));
    }
}

TEST_CASE("Python: a stack that changes while it is read has sound frames, or is told to be torn") {
    const std::set<std::string> known = {"up", "in_change", "<module>", "<lambda>"};
    for (const auto& python : pythons()) {
        const PythonProgram program(python, "change");
        int whole = 0;
        for (int look = 0; look < 300; ++look) {
            const auto stacks = program.stacks();
            REQUIRE(stacks.has_value());
            const auto* main = thread_of(*stacks, program.pid());
            REQUIRE(main != nullptr);
            whole +=
                !main->is_torn && own_frames(*main).ends_with(marked_frames({"in_change", "main"})) ? 1 : 0;
            for (const auto& frame : main->frames) {
                INFO(python << ": " << frame.function << " " << frame.file << ":" << frame.line);
                CHECK(known.contains(frame.function));
                CHECK(frame.file.ends_with("nested_calls.py"));
            }
        }
        INFO(python);
        CHECK(whole > 0);
    }
}

TEST_CASE("Python: a stopped program, and one that has ended") {
    for (const auto& python : pythons()) {
        INFO(python);
        OtherProcess other([] { ::pause(); });
        PythonProgram program(python, "sleep");
        const auto before = await_stacks(program, [&](const PythonStacks& seen) {
            return own_frames(seen.threads.front()) == marked_frames({"wait", "outer", "main"});
        });
        ::kill(program.pid(), SIGSTOP);
        const auto stacks = program.stacks();
        REQUIRE(stacks.has_value());
        REQUIRE(stacks->threads.size() == 1);
        CHECK(stacks->threads.front().frames == before.threads.front().frames);
        ::kill(program.pid(), SIGKILL);
        const auto limit = std::chrono::steady_clock::now() + kHangGuard;
        while (program.stacks().has_value() && std::chrono::steady_clock::now() < limit)
            std::this_thread::yield();
        CHECK_FALSE(program.stacks().has_value());
    }
}

TEST_CASE("Python: a reader that may neither trace nor call process_vm_readv") {
    for (const auto& python : pythons()) {
        INFO(python);
        const PythonProgram program(python, "sleep");
        const auto expected = await_stacks(program, [&](const PythonStacks& seen) {
            return own_frames(seen.threads.front()) == marked_frames({"wait", "outer", "main"});
        });
        CHECK(in_other_process([&] {
                  forbid_reading_calls(EPERM);
                  const auto stacks = program.stacks();
                  return stacks ? functions_of(stacks->threads.front()) : "nothing";
              }) == functions_of(expected.threads.front()));
    }
}

TEST_CASE("a process without Python") {
    OtherProcess child([] { ::pause(); });
    CHECK_FALSE(stacks_of(child.pid()).has_value());
}

}  // namespace ddprun
