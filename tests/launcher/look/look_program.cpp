// look_program PID [FILE]: prints the Python stacks of a process, what a look at it costs (medians of 100),
// and keeps what it has read as a MemoryImage in FILE. For a person, and for the images of the tests: of
// nested_calls.py image.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "launcher/look/kernel_view.hpp"
#include "launcher/look/process_memory.hpp"
#include "launcher/look/python_frames.hpp"
#include "tests/launcher/look/memory_image.hpp"

namespace ddprun {
namespace {

void print(const PythonStacks& stacks) {
    std::puts(
        fmt::format("Python {} {}{}", stacks.version, stacks.why_not, stacks.collecting ? "collects" : "")
            .c_str());
    for (const auto& thread : stacks.threads) {
        std::puts(fmt::format("thread {}{}{}{}", thread.id, thread.has_lock ? ", has the lock" : "",
                              thread.is_torn ? ", torn" : "", thread.is_cut ? ", cut" : "")
                      .c_str());
        for (const auto& frame : thread.frames)
            std::puts(fmt::format("    {} ({}:{})", frame.function, frame.file, frame.line).c_str());
    }
}

// Returns the median of the times of 100 calls, in microseconds.
template <class Call>
double median_us(Call call) {
    std::vector<double> times;
    for (int look = 0; look < 100; ++look) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        times.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int look_at(pid_t pid, const char* image_file) {
    MemoryImage image;
    const auto mappings = read_mappings(pid);
    if (!mappings) return std::puts(to_reason(pid, mappings.error().value()).c_str()), 1;
    for (const auto& mapping : *mappings)
        if (mapping.offset == 0 && interpreter_name(mapping.path)) image.mappings.push_back(mapping);
    for (const auto& thread : read_process_view(pid).threads) image.threads.push_back(thread.id);
    const auto root = fmt::format("/proc/{}/root", pid);
    const ProcessMemory memory(pid);
    const RecordingReader recorder(memory);
    const auto runtime = find_python(recorder, image.mappings, root);
    if (!runtime) return std::puts("no Python"), 1;
    const std::size_t finding = recorder.reads();
    print(read_python_stacks(recorder, *runtime, image.threads));
    image.pieces = recorder.pieces();
    if (image_file != nullptr) std::ofstream(image_file, std::ios::binary) << image.to_bytes();
    std::puts(
        fmt::format(
            "view {:.0f} us, mappings {:.0f} us, found in {:.0f} us and {} reads, read in {:.0f} us and {} reads",
            median_us([&] { read_process_view(pid); }), median_us([&] { read_mappings(pid).has_value(); }),
            median_us([&] { find_python(ProcessMemory(pid), *mappings, root); }), finding,
            median_us([&] { read_python_stacks(ProcessMemory(pid), *runtime, image.threads); }),
            recorder.reads() - finding)
            .c_str());
    return 0;
}

}  // namespace
}  // namespace ddprun

int main(int count, char** words) {
    if (count < 2) return std::puts("usage: look_program PID [FILE]"), 2;
    return ddprun::look_at(std::atoi(words[1]), count > 2 ? words[2] : nullptr);
}
