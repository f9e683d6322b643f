#include "tests/launcher/look/python_program.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

#include "launcher/look/kernel_view.hpp"
#include "launcher/look/process_memory.hpp"
#include "launcher/look/python_runtime.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = DDPRUN_NESTED_CALLS;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

const std::map<std::string, int>& marks() {
    static const std::map<std::string, int> found = [] {
        constexpr std::string_view kMark = "# here: ";
        std::map<std::string, int> lines;
        std::ifstream file(kProgram);
        int number = 0;
        for (std::string line; std::getline(file, line);) {
            ++number;
            const auto mark = line.find(kMark);
            if (mark != std::string::npos) lines[line.substr(mark + kMark.size())] = number;
        }
        return lines;
    }();
    return found;
}

}  // namespace

std::vector<std::string> pythons() {
    std::vector<std::string> found;
    std::set<fs::path> known;
    const auto add = [&](const fs::path& path) {
        std::error_code error;
        const auto file = fs::canonical(path, error);
        const auto name = interpreter_name(file.native());
        if (!error && name && (name->version >> 16 & 0xff) >= 8 && known.insert(file).second)
            found.push_back(path);
    };
    add("/usr/bin/python3");
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(variable("HOME")) / ".pyenv/versions", error))
        add(entry.path() / "bin/python3");
    const auto others = variable("DDPRUN_PYTHONS");
    for (const auto path : split_at(others, ':'))
        if (!path.empty()) found.emplace_back(path);
    return found;
}

int marked_line(const std::string& mark) { return marks().at(mark); }

PythonProgram::PythonProgram(const std::string& python, const std::string& way)
    : process_({python, "-B", kProgram, way}) {
    if (process_.line() != "ready") throw std::runtime_error(python + " did not begin");
}

std::optional<PythonStacks> PythonProgram::stacks() const { return stacks_of(pid()); }

std::optional<PythonStacks> stacks_of(pid_t pid) {
    const auto view = read_process_view(pid);
    const auto mappings = read_mappings(pid);
    if (!mappings) return std::nullopt;
    const ProcessMemory memory(pid);
    const auto runtime = find_python(memory, *mappings, fmt::format("/proc/{}/root", pid));
    if (!runtime) return std::nullopt;
    std::vector<pid_t> threads;
    for (const auto& thread : view.threads) threads.push_back(thread.id);
    return read_python_stacks(memory, *runtime, threads);
}

std::string own_frames(const PythonThread& thread) {
    std::string text;
    for (const auto& frame : thread.frames) {
        const auto name = frame.function.substr(frame.function.rfind('.') + 1);
        if (!frame.file.ends_with("nested_calls.py") || name == "<lambda>") continue;
        text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name, frame.line);
    }
    return text;
}

std::string marked_frames(const std::vector<std::string>& marks) {
    std::string text;
    for (const auto& mark : marks)
        text += fmt::format("{}{}:{}", text.empty() ? "" : " ", mark == "main" ? "<module>" : mark,
                            marked_line(mark));
    return text;
}

}  // namespace ddprun
