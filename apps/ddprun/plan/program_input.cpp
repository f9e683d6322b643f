#include "apps/ddprun/plan/program_input.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "apps/ddprun/plan/job_start.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/program.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/told_file.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr const char* kStandardInput = "/dev/stdin";

std::string name_of(const ProgramInput& input, const CommandLine& line) {
    const std::string program = harmless_line(line.program.front());
    return input.word.empty() || input.word == line.program.front()
               ? program
               : fmt::format("{} {}", program, harmless_line(input.word));
}

std::string read_all(const CommandLine& line, int descriptor, const std::string& name) {
    auto text = line.files.read(descriptor, kMaxReadProgram);
    if (text) return *std::move(text);
    const bool is_large = text.error() == make_error_code(Errc::limit_exceeded);
    throw UsageError(fmt::format(
        "{}: its program, which is read for all workers, {}{}{}", name, is_large ? "" : "cannot be read: ",
        why_untold(text.error(), kMaxReadProgram), is_large ? "; put it into a file" : ""));
}

// A pipe of a shell's has a number that only this process knows.
void name_standard_input(std::vector<std::string>& words, const ProgramInput& input) {
    const auto word = std::find(words.begin(), words.end(), input.word);
    if (input.descriptor != STDIN_FILENO && word != words.end()) *word = kStandardInput;
}

std::vector<std::vector<std::string>> further_words(const CommandLine& line) {
    std::vector<std::vector<std::string>> further;
    for (const NodeProgram& one : line.further_programs) further.push_back(one.words);
    for (const RankCommand& one : line.rank_programs) further.push_back(one.words);
    return further;
}

void refuse_further(const CommandLine& line) {
    for (const auto& words : further_words(line)) {
        const auto input = program_input(words);
        if (input && !input->in_text)
            throw UsageError(fmt::format(
                "{}: its program is read from standard input, which only PROGRAM can be; put it into a file",
                harmless_line(words.front())));
    }
}

// Workers get no descriptors of the launcher's.
void refuse_pipes(const CommandLine& line) {
    const auto is_pipe = [](const std::string& word) {
        const auto descriptor = descriptor_named(word.substr(word.find('=') + 1));
        struct stat info {};
        return descriptor && *descriptor > STDERR_FILENO && ::fstat(*descriptor, &info) == 0 &&
               S_ISFIFO(info.st_mode);
    };
    if (line.adapt) return;
    std::vector<std::vector<std::string>> commands = further_words(line);
    commands.push_back(line.program);
    for (const auto& words : commands) {
        const auto pipe = std::find_if(words.begin() + 1, words.end(), is_pipe);
        if (pipe != words.end())
            throw UsageError(fmt::format(
                "{} {}: a pipe of this process's, which workers do not get; write it to a file, and give that",
                harmless_line(words.front()), harmless_line(*pipe)));
    }
}

bool is_others(const CommandLine& line) {
    return line.tty_rank || line.origins.contains("--stdin") || line.secret_file == "-";
}

void check_text(const CommandLine& line, const std::string& text, const std::string& name) {
    if (text.empty())
        throw UsageError(fmt::format(
            "{}: its program is to be read from standard input, which is empty{}", name,
            line.adapt ? ", as task launchers give it to one task only; put the program into a file" : ""));
    if (!descriptor_named(line.program.front())) return;
    if (line.no_python)
        throw UsageError(fmt::format(
            "--no-python: what is read from {} cannot be executed itself; name what runs it: bash -s", name));
    if (const std::string other = other_interpreter(text); !other.empty())
        throw UsageError(fmt::format(
            "{0}: its first line is for {1}, and Python would run it; name that in front: {1} {0}", name,
            other));
}

std::optional<ProgramInput> input_of(const CommandLine& line) {
    return line.module ? std::nullopt : program_input(line.program);
}

void take(CommandLine& line, const ProgramInput& input) {
    const std::string name = name_of(input, line);
    const bool is_terminal = ::isatty(input.descriptor) != 0;
    if (is_terminal && (input.in_text || line.adapt)) return;
    if (is_terminal)
        throw UsageError(fmt::format(
            "{}: its program is to be read from standard input, which is a terminal; give a file, or --tty 0",
            name));
    std::string text = read_all(line, input.descriptor, name);
    if (text.empty() && input.in_text) return;
    check_text(line, text, name);
    name_standard_input(line.program, input);
    name_standard_input(line.start.program_words, input);
    line.read_program = std::make_shared<const std::string>(std::move(text));
}

bool has_input() {
    struct stat info {};
    if (::fstat(STDIN_FILENO, &info) != 0) return false;
    if (S_ISREG(info.st_mode)) return ::lseek(STDIN_FILENO, 0, SEEK_CUR) < info.st_size;
    int waiting = 0;
    const bool is_stream = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode);
    return is_stream && ::ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0;
}

}  // namespace

void take_read_program(CommandLine& line) {
    if (line.dry_run || line.explain || line.show || line.program.empty()) return;
    if (!is_others(line)) {
        refuse_further(line);
        const auto input = input_of(line);
        if (input && !input->is_unsure) take(line, *input);
    }
    refuse_pipes(line);
}

void take_starters_program(CommandLine& line, const std::string& path) {
    if (path.empty()) return;
    auto text = read_small_file(path, kMaxReadProgram);
    if (!text)
        throw UsageError("the program that the starter has read did not come: " + text.error().message());
    line.read_program = std::make_shared<const std::string>(*std::move(text));
}

std::string unread_input(const CommandLine& line) {
    if (line.read_program || line.secret_file == "-" || !has_input()) return {};
    if (line.detach)
        return "--detach: workers read nothing, though standard input has something; give it to them in a "
               "file";
    return fmt::format(
        "{}: workers read nothing, though standard input has something; give it to them in a file on their "
        "hosts, or type < /dev/null",
        hosts_flag(line));
}

std::string half_read_program(const CommandLine& line) {
    if (line.detach || line.standard_input.all || is_others(line) || !has_input()) return {};
    const auto input = input_of(line);
    if (!input || !input->is_unsure) return {};
    return fmt::format(
        "{}: only rank 0 reads standard input, and the text may run a program from it; put the program into "
        "a file, or type --stdin 0",
        harmless_line(line.program.front()));
}

}  // namespace app
}  // namespace ddprun
