#include "launcher/plan/program_kind.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "launcher/plan/shell_words.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kPythons[] = {"python", "pypy", "graalpy"};

// By their names without versions.
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

// python3, python3.13t, pypy3.10, perl5.36.0, python3-dbg; but nothing of r2d2.
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

// How env reads one of its options.
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

// What env is to execute; empty where it is nothing, or cannot be read.
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

// Given to a binary, it tells that this starts others, whatever its own name.
bool is_for_starter(const std::string& word) {
    constexpr std::string_view kShells[] = {"sh", "bash", "dash", "zsh"};
    return is_python(word) || word.ends_with(".py") || word.ends_with(".sh") ||
           contains(kShells, without_folders(word));
}

}  // namespace

bool runs_python(std::vector<std::string> words) {
    while (!words.empty() && without_folders(words.front()) == "env") words = behind_env(std::move(words));
    return !words.empty() && is_python(words.front());
}

ProgramKind kind_of(const std::vector<std::string>& words, const ProgramFile& file) {
    if (runs_python(words) || is_python(file.real_name) || runs_python(file.interpreter))
        return ProgramKind::python;
    if (!file.is_binary || starts_others(without_folders(words.front())) || starts_others(file.real_name))
        return ProgramKind::other;
    const bool is_wrapper = std::any_of(words.begin() + 1, words.end(), is_for_starter);
    return is_wrapper ? ProgramKind::other : ProgramKind::native;
}

}  // namespace ddprun::inline launch
