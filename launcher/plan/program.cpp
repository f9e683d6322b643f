#include "launcher/plan/program.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kMacro = "local_rank";

// What torchrun's worker does with --run-path: an exception is recorded without the program's doing. No `$` in it.
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

// The identifier at the beginning of `text`, as long as it goes.
std::string_view leading_identifier(std::string_view text) {
    if (text.empty() || !starts_identifier(text.front())) return {};
    return text.substr(0, std::find_if_not(text.begin(), text.end(), continues_identifier) - text.begin());
}

// How many characters behind a `$` are the macro; 0 if they are not.
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

std::string contradiction(const ProgramRequest& request) {
    if (request.run_path) return {};
    if (request.module && request.no_python) return "--no-python: contradicts --module (-m)";
    if (request.python && request.no_python) return "--no-python: contradicts --python";
    return {};
}

}  // namespace

std::variant<Program, std::string> choose_program(const ProgramRequest& request) {
    if (std::string error = contradiction(request); !error.empty()) return error;
    Program program;
    program.entry_name = request.program;
    program.substitutes_all = request.substitutes_all;
    const bool script = request.program.ends_with(".py") || request.python || request.file.is_for_python;
    const bool by_python = request.run_path || (!request.no_python && (request.module || script));
    if (by_python) program.argv = {python_name(request.python_exec), "-u"};
    if (request.run_path) {
        program.argv.insert(program.argv.end(), {"-c", kRunPath});
    } else if (request.module) {
        program.argv.emplace_back("-m");
    }
    program.argv.push_back(request.program);
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

}  // namespace ddprun::inline launch
