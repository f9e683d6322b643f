#include "launcher/plan/program.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "launcher/first_line.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/rank_command.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kPythons[] = {"python", "pypy", "graalpy"};

// They are named without versions.
constexpr std::string_view kStarters[] = {
    // shells
    "sh", "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "pwsh", "rbash", "tcsh", "toybox",
    "yash", "zsh",
    // interpreters
    "R", "Rscript", "awk", "bun", "deno", "dotnet", "erl", "gawk", "guile", "java", "julia", "lua", "luajit",
    "mawk", "mono", "node", "nodejs", "octave", "octave-cli", "perl", "php", "racket", "ruby", "tclsh",
    "wish",
    // one command for another: its environment, place, time and user
    "chpst", "chroot", "chrt", "coreutils", "cpulimit", "dbus-run-session", "direnv", "doas", "dumb-init",
    "env", "expect", "fakeroot", "faketime", "flock", "gosu", "ionice", "just", "make", "mise", "nice", "nix",
    "nohup", "nsenter", "numactl", "parallel", "prlimit", "runuser", "screen", "script", "setarch", "setpriv",
    "setsid", "stdbuf", "su", "sudo", "systemd-inhibit", "systemd-run", "taskset", "time", "timeout", "tini",
    "tmux", "unbuffer", "unshare", "watch", "xargs", "cargo", "cgexec", "hwloc-bind", "runcon", "schedtool",
    // containers and environments
    "apptainer", "bwrap", "conda", "docker", "enroot", "firejail", "hatch", "mamba", "micromamba", "nerdctl",
    "ch-run", "pdm", "pipx", "pixi", "podman", "poetry", "proot", "rye", "shifter", "singularity", "ssh",
    "uv", "uvx",
    // debuggers and profilers
    "catchsegv", "compute-sanitizer", "cuda-gdb", "cuda-gdbserver", "cuda-memcheck", "gdb", "gdbserver",
    "heaptrack", "likwid-perfctr", "likwid-pin", "lldb", "ltrace", "memray", "ncu", "nsys", "nvprof",
    "omnitrace", "perf", "py-spy", "rocgdb", "rocprof", "rocprof-compute", "rocprof-sys-run", "rocprofv",
    "rr", "strace", "valgrind", "vtune",
    // launchers
    "accelerate", "ddprun", "ddprun-launch", "deepspeed", "horovodrun", "jsrun", "mpiexec", "mpiexec.hydra",
    "mpirun", "orterun", "prterun", "srun", "torchrun"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string_view without_folders(std::string_view name) { return name.substr(name.rfind('/') + 1); }

// It takes the version from python3, python3.13t, pypy3.10, perl5.36.0, python3-dbg; but nothing from r2d2.
std::string_view without_version(std::string_view name) {
    const auto digit = name.find_first_of("0123456789");
    if (digit == name.npos) return name;
    const std::string_view version = name.substr(digit);
    const auto behind = version.find_first_not_of("0123456789.");
    const bool is_version = behind == version.npos || version[behind] == '-' || behind + 1 == version.size();
    if (!is_version) return name;
    name = name.substr(0, digit);
    if (name.ends_with('-')) name.remove_suffix(1);
    return name;
}

bool is_python(std::string_view name) { return contains(kPythons, without_version(without_folders(name))); }

bool starts_others(std::string_view name) {
    return contains(kStarters, name) || contains(kStarters, without_version(name));
}

// EnvOption is how env reads one of its options.
struct EnvOption {
    bool takes_value = false;
    bool splits = false;     // its value is cut into words, which stand in its place
    std::string_view value;  // unless it is the next word
    bool has_value = false;
};

EnvOption env_option(std::string_view word) {
    if (word.starts_with("--")) {
        const auto equals = word.find('=');
        const std::string_view name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
        EnvOption option{.splits = name == "split-string"};
        option.takes_value = option.splits || name == "unset" || name == "chdir" || name == "argv0";
        option.has_value = equals != word.npos;
        if (option.has_value) option.value = word.substr(equals + 1);
        return option;
    }
    const auto letter = word.find_first_of("SuCa", 1);
    if (letter == word.npos) return {};
    return {.takes_value = true,
            .splits = word[letter] == 'S',
            .value = word.substr(letter + 1),
            .has_value = letter + 1 < word.size()};
}

// Returns what env is to execute; empty where it is nothing, or cannot be read.
std::vector<std::string> behind_env(std::vector<std::string> words) {
    std::size_t at = 1;
    while (at < words.size() && words[at].size() > 1 && words[at].starts_with('-')) {
        const std::string word = words[at++];
        if (word == "--") break;
        const EnvOption option = env_option(word);
        if (!option.takes_value) continue;
        if (!option.has_value && at == words.size()) return {};
        const std::string value(option.has_value ? option.value : std::string_view(words[at++]));
        if (!option.splits) continue;
        auto split = split_shell_words(value);
        if (std::holds_alternative<std::string>(split)) return {};
        const auto begin = words.begin();
        words.erase(begin, begin + static_cast<std::ptrdiff_t>(at));
        auto& more = std::get<std::vector<std::string>>(split);
        words.insert(words.begin(), more.begin(), more.end());
        at = 0;
    }
    const auto is_no_program = [](const std::string& word) {
        return word == "-" || word.find('=') != word.npos;
    };
    const auto from = words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size()));
    return {std::find_if_not(from, words.end(), is_no_program), words.end()};
}

std::vector<std::string> behind_envs(std::vector<std::string> words) {
    while (!words.empty() && without_folders(words.front()) == "env") words = behind_env(std::move(words));
    return words;
}

bool is_shell(std::string_view name) {
    constexpr std::string_view kShells[] = {"sh", "ash", "bash", "dash", "ksh", "zsh"};
    return contains(kShells, without_folders(name));
}

bool is_interpreter(std::string_view name) { return is_python(name) || is_shell(name); }

// A binary that is given such a word starts others, whatever its own name.
bool is_for_starter(const std::string& word) {
    return is_interpreter(word) || word.ends_with(".py") || word.ends_with(".sh");
}

}  // namespace

bool runs_python(std::vector<std::string> words) {
    words = behind_envs(std::move(words));
    return !words.empty() && is_python(words.front());
}

namespace {

// What an interpreter is given to run, as its options say.
struct Given {
    std::size_t at = 0;  // its place among the words; behind the last one: nothing is given
    std::string option;  // "-m", "-c", or one by which it runs nothing; empty: a file, or standard input
};

// An option of one letter may stand behind others: -um train.
Given given_to(const std::vector<std::string>& words) {
    const bool python = is_python(words.front());
    const std::string_view ending = python ? "mc" : "cs";
    const std::string_view valued = python ? "WX" : "oO";
    const std::string_view asking = python ? "Vh?" : "";
    constexpr std::string_view kLongValued[] = {"--rcfile", "--init-file", "--check-hash-based-pycs"};
    for (std::size_t at = 1; at < words.size(); ++at) {
        const std::string& word = words[at];
        if (word == "--") return {at + 1, ""};
        if (word.size() < 2 || word.front() != '-') return {at, ""};
        if (word.starts_with("--version") || word.starts_with("--help")) return {words.size(), word};
        if (contains(kLongValued, word)) ++at;
        if (word[1] == '-') continue;
        const auto end = word.find_first_of(ending, 1);
        const auto value = word.find_first_of(valued, 1);
        if (word.find_first_of(asking, 1) < std::min(end, value)) return {words.size(), word};
        if (value < end) {
            at += value + 1 == word.size() ? 1 : 0;
        } else if (end != word.npos) {
            return word[end] == 's' ? Given{words.size(), ""} : Given{at + 1, std::string("-") + word[end]};
        }
    }
    return {words.size(), ""};
}

// What a wrapper starts, as far as its words tell.
std::vector<std::string> behind_wrapper(const std::vector<std::string>& words) {
    if (!starts_others(without_folders(words.front()))) return {};
    return {std::find_if(words.begin() + 1, words.end(),
                         [](const std::string& word) {
                             return is_for_starter(word) || starts_others(without_folders(word));
                         }),
            words.end()};
}

}  // namespace

std::vector<std::string> program_words(const std::vector<std::string>& words) {
    const std::vector<std::string> run = behind_envs(words);
    if (run.empty()) return words;
    std::vector<std::string> program{run.front()};
    const auto add = [&program](const std::vector<std::string>& more) {
        program.insert(program.end(), more.begin(), more.end());
    };
    if (!is_interpreter(run.front())) {
        if (const auto behind = behind_wrapper(run); !behind.empty()) add(program_words(behind));
        return program;
    }
    const auto [at, option] = given_to(run);
    if (!option.empty()) program.push_back(option);
    if (at >= run.size()) return program;
    if (option != "-c" || is_python(run.front())) {
        program.push_back(run[at]);
        return program;
    }
    const auto text = split_shell_words(run[at]);
    const auto* parted = std::get_if<std::vector<std::string>>(&text);
    add(parted == nullptr || parted->empty() ? std::vector{run[at]} : program_words(*parted));
    return program;
}

std::optional<int> descriptor_named(const std::string& word) {
    if (word == "-" || word == "/dev/stdin" || word == "/proc/self/fd/0") return 0;
    for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
        if (word.starts_with(folder))
            return whole_number<int>(std::string_view(word).substr(folder.size()), 0);
    }
    return std::nullopt;
}

std::optional<ProgramInput> program_input(const std::vector<std::string>& words) {
    const auto named = [](const std::string& word) -> std::optional<ProgramInput> {
        const auto descriptor = descriptor_named(word);
        return descriptor ? std::optional(ProgramInput{word, *descriptor}) : std::nullopt;
    };
    if (auto input = named(words.front())) return input;
    const std::vector<std::string> run = behind_envs(words);
    if (run.empty()) return std::nullopt;
    if (is_interpreter(run.front())) {
        const auto [at, option] = given_to(run);
        if (!option.empty()) return std::nullopt;
        return at >= run.size() ? ProgramInput{} : named(run[at]);
    }
    const auto behind = behind_wrapper(run);
    if (!behind.empty()) return program_input(behind);
    const bool may_read = run.size() > 1 && starts_others(without_folders(run.front()));
    return may_read ? named(run[1]) : std::nullopt;
}

ProgramKind kind_of(const std::vector<std::string>& words, const ProgramFile& file) {
    if (runs_python(words) || is_python(file.real_name) || runs_python(file.interpreter))
        return ProgramKind::python;
    if (!file.is_binary || starts_others(without_folders(words.front())) || starts_others(file.real_name))
        return ProgramKind::other;
    const bool is_wrapper = std::any_of(words.begin() + 1, words.end(), is_for_starter);
    return is_wrapper ? ProgramKind::other : ProgramKind::native;
}

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
        return contains(kLaunchers, without_folders(word)) ||
               (word.starts_with('/') && std::filesystem::equivalent(word, "/proc/self/exe", ignored));
    };
    return std::any_of(words.begin(), words.end(), is_launcher);
}

// True if it is for another interpreter than Python, which a wrapper may start: "#!/usr/bin/env -S uv run python".
bool names_other_interpreter(const std::vector<std::string>& words) {
    return !words.empty() && std::none_of(words.begin(), words.end(), is_python) && !names_launcher(words);
}

}  // namespace

std::string other_interpreter(std::string_view text) {
    const std::vector<std::string> words = words_of(first_line_of(text));
    return names_other_interpreter(words) ? words.front() : "";
}

namespace {

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
    std::error_code ignored;
    if (std::filesystem::exists(line.words.front(), ignored)) return std::nullopt;
    return ProgramFault{fmt::format("its interpreter {}, which its first line names, does not exist",
                                    harmless_line(line.words.front())),
                        kExitNotExecutable};
}

// The same for a name to which no file belongs that can be executed.
ProgramFault fault_without_file(const std::string& name) {
    std::error_code ignored;
    if (std::filesystem::is_directory(name, ignored))
        return {"it is a directory, without a __main__.py", kExitNotExecutable};
    if (name.find('/') == name.npos) return {"not found on PATH", kExitNotFound};
    if (!std::filesystem::exists(name, ignored)) return {"no such file", kExitNotFound};
    struct stat info {};
    struct statvfs mount {};
    const bool is_file = ::stat(name.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (!is_file) return {"it is no file that can be executed", kExitNotExecutable};
    if ((info.st_mode & S_IXUSR) != 0 && ::statvfs(name.c_str(), &mount) == 0 &&
        (mount.f_flag & ST_NOEXEC) != 0)
        return {"its file system is mounted noexec: put it elsewhere", kExitNotExecutable};
    if (info.st_uid != ::geteuid() && ::geteuid() != 0)
        return {"it is not executable, and only its owner can make it so", kExitNotExecutable};
    return {"it is not executable; chmod +x makes it so", kExitNotExecutable};
}

}  // namespace

ProgramFile look_at_program(const std::string& name, const std::string& executable) {
    const bool is_command = name.find('/') == name.npos && !executable.empty();
    const std::filesystem::path file = is_command ? executable : name;
    std::error_code ignored;
    // Python takes -, and -c behind --, for something else than a path.
    ProgramFile found{.is_missing = !name.starts_with('-') && !std::filesystem::exists(name, ignored)};
    if (executable.empty()) found.fault = fault_without_file(name);
    if (std::filesystem::is_directory(file, ignored))
        found.is_for_python = std::filesystem::is_regular_file(file / "__main__.py", ignored);
    if (!std::filesystem::is_regular_file(file, ignored)) return found;
    const std::string beginning = beginning_of(file);
    found.is_binary = is_binary(beginning);
    const FirstLine line = first_line_of(beginning);
    const std::vector<std::string> words = words_of(line);
    if (executable.empty()) {
        found.is_for_python =
            beginning.starts_with(kZip) ||
            (!found.is_binary && !names_other_interpreter(words) && !file.string().ends_with(".sh"));
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

// torchrun's worker does this with --run-path: an exception is recorded without the program's doing. It has no `$`.
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
    if (is_script && request.file.is_missing && request.file.python_path.empty() &&
        runs_python({python_name(request.python_exec)})) {
        program.argv = {request.program.find('/') == std::string::npos ? "./" + request.program
                                                                       : request.program};
        program.fault = {"no such file", kExitNotFound};
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

}  // namespace ddprun::inline launch
