#include "launcher/plan/program_words.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "launcher/plan/rank_command.hpp"
#include "launcher/plan/shell_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
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

bool is_shell(std::string_view name) {
    constexpr std::string_view kShells[] = {"sh",  "ash",  "bash",  "csh",  "dash", "fish",
                                            "ksh", "mksh", "rbash", "tcsh", "yash", "zsh"};
    return contains(kShells, without_folders(name));
}

bool is_interpreter(std::string_view name) { return is_python(name) || is_shell(name); }

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
        if (word.size() < 2 || (word.front() != '-' && (python || word.front() != '+'))) return {at, ""};
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

// Behind these a path may be another thing than a program: a folder, an image, a lock.
bool takes_other_paths(std::string_view wrapper) {
    constexpr std::string_view kTakers[] = {
        "apptainer", "bwrap",   "ch-run", "chpst", "chroot", "docker", "enroot",  "firejail",    "flock",
        "nerdctl",   "nsenter", "podman", "proot", "script", "ssh",    "shifter", "singularity", "unshare"};
    return contains(kTakers, wrapper);
}

// Wrappers' options whose value may be a path: where a trace goes, what a debugger reads, where make works.
bool takes_path(std::string_view option) {
    constexpr std::string_view kTakers[] = {"-o",         "-x",       "-C",       "--chdir", "--command",
                                            "--log-file", "--output", "--prefix", "--report"};
    return contains(kTakers, option);
}

// What a wrapper starts, as far as its words tell: a path from this folder, a script, an interpreter or
// another wrapper.
std::vector<std::string> behind_wrapper(const std::vector<std::string>& words) {
    const std::string_view wrapper = without_folders(words.front());
    if (!starts_others(wrapper)) return {};
    const bool runs_paths = !takes_other_paths(wrapper);
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
        const bool is_path =
            (word->starts_with("./") || word->starts_with("../")) && !takes_path(*std::prev(word));
        if ((runs_paths && is_path) || is_for_starter(*word) || starts_others(without_folders(*word)))
            return {word, words.end()};
    }
    return {};
}

// An interpreter that reads its program from standard input where it is given nothing. In a folder that is
// none of installed programs it is a program of the user's that is called alike.
bool reads_its_input(std::string_view name) {
    constexpr std::string_view kReaders[] = {"julia", "lua", "luajit", "node", "nodejs",
                                             "perl",  "php", "ruby",   "tclsh"};
    const std::string_view folder = name.substr(0, name.size() - without_folders(name).size());
    if (!folder.empty() && !(folder.starts_with('/') && folder.ends_with("/bin/"))) return false;
    return contains(kReaders, without_version(without_folders(name)));
}

// What a command of a text reads its program from, if it is the text's standard input.
std::optional<ProgramInput> input_of_command(const std::vector<std::string>& run) {
    if (run.empty()) return std::nullopt;
    const bool sources = run.size() > 1 && (run[0] == "source" || run[0] == ".");
    const auto input = sources ? std::optional(ProgramInput{run[1], descriptor_named(run[1]).value_or(-1)})
                               : program_input(run);
    return input && input->descriptor == 0 ? input : std::nullopt;
}

// The words of a command that stands among other things: `do A=1 python3 -`.
std::vector<std::string> words_of_part(std::string_view part) {
    std::vector<std::string> words{"env"};
    for (const std::string_view word : split_at(part, ' ')) {
        const bool stands_in_front = words.size() == 1 && (is_keyword(word) || word == "exec");
        if (!word.empty() && !stands_in_front) words.emplace_back(word);
    }
    return behind_envs(words);
}

// Tells of a text that has more than simple commands whether one of them may read its program, as in
// (python3 -), or what stands in standard input may become a part of one: eval "$(cat)".
bool may_run_input(std::string_view text) {
    bool has_cat = false, was_cat = false, runs = false;
    for (std::size_t at = 0, end = 0; at <= text.size(); at = end + 1) {
        end = std::min(text.find_first_of("|&;(){}`\n\"'", at), text.size());
        const bool is_piped = at > 1 && text[at - 1] == '|' && text[at - 2] != '|' && !was_cat;
        const std::size_t sign = std::min(end, text.find_first_of("<>", at));
        std::string_view part = text.substr(at, sign - at);
        if (sign < end) part = part.substr(0, part.find_last_not_of("0123456789") + 1);
        const auto run = words_of_part(part);
        was_cat = is_cat(run);
        has_cat |= was_cat && !is_piped;
        const std::string first = run.empty() ? "" : run[0];
        runs |= first == "eval" || first == "source" || first == "." || is_interpreter(first);
        const bool is_redirected = sign < end && text[sign] == '<';
        if (!is_piped && !is_redirected && input_of_command(run)) return true;
    }
    return has_cat && runs;
}

// Returns the input of the first command that reads its program from the text's.
std::optional<ProgramInput> input_of_text(const std::string& text) {
    const auto commands = commands_of(text);
    if (!commands && may_run_input(text)) return ProgramInput{.in_text = true, .is_unsure = true};
    for (const TextCommand& command : commands.value_or(std::vector<TextCommand>())) {
        if (!command.reads_input) continue;
        if (const auto input = input_of_command(behind_envs(command.words)))
            return ProgramInput{.word = input->word, .in_text = true, .is_unsure = input->is_unsure};
    }
    return std::nullopt;
}

// Behind the interpreters and wrappers that are no shells: `julia -`, `uv run -`, `awk -f -`.
bool stands_for_program(const std::vector<std::string>& words, std::size_t at) {
    constexpr std::string_view kByFile[] = {"awk", "gawk", "mawk", "make"};
    constexpr std::string_view kLogins[] = {"su", "runuser"};
    const std::string_view name = without_folders(words.front());
    if (at == 1) return starts_others(name) && !contains(kLogins, name);
    if (words[at - 1] == "run") return at == 2 && (starts_others(name) || name == "coverage");
    return words[at - 1] == "-f" && contains(kByFile, name);
}

// Says of the first word of a shell's text whether it is a program's name and no syntax.
bool names_program(const std::string& word) {
    constexpr std::string_view kWordsOfShells[] = {"[",    "[[",     "case",   "cd",    "conda", "echo",
                                                   "eval", "exec",   "export", "for",   "if",    "module",
                                                   "set",  "test",   "printf", "trap",  "umask", "source",
                                                   "true", "ulimit", "until",  "while", ":",     "."};
    return !contains(kWordsOfShells, word) && word.find_first_of("#$`(){}<>|&;=\n") == word.npos;
}

}  // namespace

std::string_view without_folders(std::string_view name) { return name.substr(name.rfind('/') + 1); }

bool is_python(std::string_view name) { return contains(kPythons, without_version(without_folders(name))); }

bool starts_others(std::string_view name) {
    return contains(kStarters, name) || contains(kStarters, without_version(name));
}

std::vector<std::string> behind_envs(std::vector<std::string> words) {
    while (!words.empty() && without_folders(words.front()) == "env") words = behind_env(std::move(words));
    return words;
}

bool is_for_starter(const std::string& word) {
    return is_interpreter(word) || word.ends_with(".py") || word.ends_with(".sh");
}

bool runs_python(std::vector<std::string> words) {
    words = behind_envs(std::move(words));
    return !words.empty() && is_python(words.front());
}

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
    if (parted == nullptr || parted->empty()) {
        program.push_back(run[at]);
        return program;
    }
    // Variables stand in front of a shell's command as they do behind env.
    std::vector<std::string> command{"env"};
    command.insert(command.end(), parted->begin(), parted->end());
    const std::vector<std::string> of_shell = behind_envs(command);
    add(of_shell.empty() ? *parted : program_words(of_shell));
    return program;
}

std::string known_name(const std::vector<std::string>& program) {
    for (std::size_t i = program.size(); i > 0; --i) {
        const std::string& word = program[i - 1];
        const bool is_behind_text_option = i > 2 && program[i - 2] == "-c";
        const bool is_pythons_text = is_behind_text_option && is_python(program[i - 3]);
        const bool is_in_shells_text = is_behind_text_option && !is_pythons_text;
        const bool is_unnamed = word.empty() || word.starts_with('-') || descriptor_named(word) ||
                                (is_in_shells_text && !names_program(word));
        if (!is_unnamed && !is_pythons_text) return word;
    }
    return {};
}

std::vector<std::string> without_places(std::vector<std::string> program) {
    bool is_behind_python = false, is_text = false;
    for (std::string& word : program) {
        const bool is_option = word == "-c" || word == "-m";
        const bool stays = is_text || is_option;
        is_text = word == "-m" || (word == "-c" && is_behind_python);
        if (stays) continue;
        is_behind_python = is_python(word);
        while (word.size() > 1 && word.ends_with('/')) word.pop_back();
        std::string_view name = without_folders(word);
        if (is_behind_python) name = without_version(name);
        word = std::string(name);
    }
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
        if (option == "-c" && !is_python(run.front()) && at < run.size()) return input_of_text(run[at]);
        if (!option.empty()) return std::nullopt;
        return at >= run.size() ? ProgramInput{} : named(run[at]);
    }
    const auto behind = behind_wrapper(run);
    if (!behind.empty()) return program_input(behind);
    if (run.size() == 1 && reads_its_input(run.front())) return ProgramInput{};
    for (std::size_t at = 1; at < run.size(); ++at) {
        if (stands_for_program(run, at) && named(run[at])) return named(run[at]);
    }
    return std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
