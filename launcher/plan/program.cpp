#include "launcher/plan/program.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "launcher/first_line.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/plan/rank_command.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::string_view kZip = "PK\x03\x04";

// Those by which this launcher, or the one that it stands in for, is called.
constexpr std::string_view kLaunchers[] = {"ddprun", "ddprun-launch", "torchrun", "torch.distributed.run",
                                           "torch.distributed.launch"};

// The words of a first line, as env and a shell would part them, from what env starts on.
std::vector<std::string> words_of(const FirstLine& line) {
    std::vector<std::string> parted;
    for (const std::string& word : behind_envs(line.words)) {
        for (const std::string_view part : split_at(word, ' ')) {
            if (!part.empty()) parted.emplace_back(part);
        }
    }
    return parted;
}

// A program that such a line starts would start itself, and so on.
bool names_launcher(const std::vector<std::string>& words) {
    const auto is_launcher = [](const std::string& word) {
        std::error_code ignored;
        return std::ranges::find(kLaunchers, without_folders(word)) != std::end(kLaunchers) ||
               (word.starts_with('/') && std::filesystem::equivalent(word, "/proc/self/exe", ignored));
    };
    return std::any_of(words.begin(), words.end(), is_launcher);
}

// True if it is for another interpreter than Python, which a wrapper may start: "#!/usr/bin/env -S uv run
// python".
bool names_other_interpreter(const std::vector<std::string>& words) {
    return !words.empty() && std::none_of(words.begin(), words.end(), is_python) && !names_launcher(words);
}

// The system finds no program of the name that such a line has in it.
bool names_carriage_return(const FirstLine& line) {
    if (!line.carriage_return || line.words.empty()) return false;
    const std::string& last =
        line.words.back();  // env takes a carriage return among several words for a blank
    const bool is_envs = without_folders(line.words.front()) == "env" && !last.starts_with('-');
    return line.words.size() == 1 || (is_envs && last.find_first_of(" \t") == std::string::npos);
}

// Returns why the system would not execute a file with this first line, as far as that decides.
std::optional<ProgramFault> fault_of(const FirstLine& line, bool is_nobodys) {
    if (line.words.empty()) return std::nullopt;
    if (is_nobodys)
        return ProgramFault{
            fmt::format(
                "its first line names '{}' and a carriage return, which the system takes for a part of the name{}",
                harmless_line(line.words.back()), kCarriageReturnRemedy),
            kExitNotExecutable};
    const auto missing = missing_fault(line.words.front());
    if (!missing) return std::nullopt;
    return ProgramFault{fmt::format("its interpreter {}, which its first line names: {}",
                                    harmless_line(line.words.front()), missing->text),
                        kExitNotExecutable};
}

}  // namespace

ProgramKind kind_of(const std::vector<std::string>& words, const ProgramFile& file) {
    if (runs_python(words) || is_python(file.real_name) || runs_python(file.interpreter))
        return ProgramKind::python;
    if (!file.is_binary || starts_others(without_folders(words.front())) || starts_others(file.real_name))
        return ProgramKind::other;
    const bool is_wrapper = std::any_of(words.begin() + 1, words.end(), is_for_starter);
    return is_wrapper ? ProgramKind::other : ProgramKind::native;
}

std::string other_interpreter(std::string_view text) {
    const std::vector<std::string> words = words_of(first_line_of(text));
    return names_other_interpreter(words) ? words.front() : "";
}

ProgramFile look_at_program(const std::string& name, const std::string& executable) {
    const bool is_command = name.find('/') == name.npos && !executable.empty();
    const std::filesystem::path file = is_command ? executable : name;
    std::error_code ignored;
    ProgramFile found;
    // Python takes -, and -c behind --, for something else than a path.
    if (!name.starts_with('-')) found.unreadable = reading_fault(name);
    if (executable.empty()) found.fault = execution_fault(name);
    if (std::filesystem::is_directory(file, ignored)) {
        found.is_for_python = std::filesystem::is_regular_file(file / "__main__.py", ignored);
        if (found.fault && !found.unreadable) found.fault->text += ", without a __main__.py";
    }
    if (!std::filesystem::is_regular_file(file, ignored)) return found;
    const std::string beginning = beginning_of(file);
    found.is_binary = is_binary(beginning);
    const FirstLine line = first_line_of(beginning);
    const std::vector<std::string> words = words_of(line);
    if (executable.empty()) {
        const std::string by_ending = runner_by_ending(name);
        const bool is_others =
            line.words.empty() ? !by_ending.empty() && !is_python(by_ending) : names_other_interpreter(words);
        found.is_for_python = beginning.starts_with(kZip) || (!found.is_binary && !is_others);
        std::string runner;
        for (const std::string& word : words) runner += (runner.empty() ? "" : " ") + word;
        found.fault = execution_fault(name, runner);
        return found;
    }
    found.starts_launcher = names_launcher(words);
    const bool is_nobodys = names_carriage_return(line);
    const bool python_only = beginning.starts_with(kZip) || (is_nobodys && runs_python(words));
    found.is_for_python = found.starts_launcher || (!is_command && python_only);
    if (is_command && found.is_for_python) found.python_path = executable;
    found.interpreter = line.words;
    found.fault = fault_of(line, is_nobodys);
    found.real_name = std::filesystem::canonical(file, ignored).filename().string();
    return found;
}

namespace {

constexpr std::string_view kMacro = "local_rank";

// torchrun's worker does this with --run-path: an exception is recorded without the program's doing. It has
// no `$`.
constexpr const char* kRunPath = R"(import json, os, runpy, sys, time, traceback
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Exception as error:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        extra = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        text = f"{type(error).__name__}: {error}"
        with open(path, "w") as file:
            json.dump({"message": {"message": text, "extraInfo": extra}}, file)
    raise
)";

bool starts_identifier(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool continues_identifier(char c) { return starts_identifier(c) || (c >= '0' && c <= '9'); }

// Returns the identifier at the beginning of `text`, as long as it goes.
std::string_view leading_identifier(std::string_view text) {
    if (text.empty() || !starts_identifier(text.front())) return {};
    return text.substr(0, std::find_if_not(text.begin(), text.end(), continues_identifier) - text.begin());
}

// Says how many characters behind a `$` are the macro; 0 if they are not.
std::size_t macro_length(std::string_view rest) {
    if (leading_identifier(rest) == kMacro) return kMacro.size();
    if (rest.starts_with('{') && leading_identifier(rest.substr(1)) == kMacro &&
        rest.substr(1 + kMacro.size()).starts_with('}')) {
        return kMacro.size() + 2;
    }
    return 0;
}

// A shell's `$$` in an argument that has nothing to do with the macro is the shell's.
bool names_macro(std::string_view text) {
    return text.find("$local_rank") != text.npos || text.find("${local_rank}") != text.npos;
}

std::string substitute(std::string_view text, const std::string& local_rank) {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '$') {
            result += text[at];
            continue;
        }
        const std::string_view rest = text.substr(at + 1);
        if (rest.starts_with('$')) {
            result += '$';
            ++at;
        } else if (const std::size_t length = macro_length(rest)) {
            result += local_rank;
            at += length;
        } else {
            result += '$';
        }
    }
    return result;
}

}  // namespace

std::variant<Program, std::string> choose_program(const ProgramRequest& request) {
    if (request.no_python && !request.run_path && request.file.starts_launcher)
        return "--no-python: the first line of " + request.program +
               " names this launcher, which would start itself without end";
    const bool script = request.program.ends_with(".py") || request.python || request.file.is_for_python;
    const bool by_python = request.run_path || (!request.no_python && (request.module || script));
    Program program;
    program.entry_name = request.program;
    program.substitutes_all = request.substitutes_all;
    const bool is_script = by_python && (request.run_path || !request.module);
    // Another one in Python's place may find it in a container.
    if (is_script && request.file.unreadable && request.file.python_path.empty() &&
        runs_python({python_name(request.python_exec)})) {
        program.argv = {request.program.find('/') == std::string::npos ? "./" + request.program
                                                                       : request.program};
        program.fault = request.file.unreadable;
        return program;
    }
    program.fault = by_python ? std::nullopt : request.file.fault;
    if (by_python) program.argv = {python_name(request.python_exec), "-u"};
    if (request.run_path) {
        program.argv.insert(program.argv.end(), {"-c", kRunPath});
    } else if (request.module) {
        program.argv.emplace_back("-m");
    }
    const bool elsewhere = by_python && !request.module && !request.file.python_path.empty();
    program.argv.push_back(elsewhere ? request.file.python_path : request.program);
    if (!request.local_rank_option.empty())
        program.argv.push_back(request.local_rank_option + "=${local_rank}");
    program.argv.insert(program.argv.end(), request.arguments.begin(), request.arguments.end());
    program.kind = by_python ? ProgramKind::by_python : kind_of(program.argv, request.file);
    return program;
}

std::string python_name(const std::optional<std::string>& python_exec) {
    return python_exec && !python_exec->empty() ? *python_exec : "python3";
}

std::vector<std::string> argv_for_worker(const Program& program, int local_rank) {
    std::vector<std::string> argv = program.argv;
    const std::string number = std::to_string(local_rank);
    for (std::size_t i = 1; i < argv.size(); ++i) {
        if (program.substitutes_all || names_macro(argv[i])) argv[i] = substitute(argv[i], number);
    }
    return argv;
}

}  // namespace launch
}  // namespace ddprun
