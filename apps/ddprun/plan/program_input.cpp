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

std::string name_of(const ProgramInput& input, const JobPlan& job) {
    const std::string program = harmless_line(job.program.front());
    return input.word.empty() || input.word == job.program.front()
               ? program
               : fmt::format("{} {}", program, harmless_line(input.word));
}

std::string read_all(const JobPlan& job, int descriptor, const std::string& name) {
    auto text = job.files.read(descriptor, kMaxReadProgram);
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

std::vector<std::vector<std::string>> further_words(const JobPlan& job) {
    std::vector<std::vector<std::string>> further;
    for (const NodeProgram& one : job.further_programs) further.push_back(one.words);
    for (const RankCommand& one : job.rank_programs) further.push_back(one.words);
    return further;
}

void refuse_further(const JobPlan& job) {
    for (const auto& words : further_words(job)) {
        const auto input = program_input(words);
        if (input && !input->in_text)
            throw UsageError(fmt::format(
                "{}: its program is read from standard input, which only PROGRAM can be; put it into a file",
                harmless_line(words.front())));
    }
}

// Workers get no descriptors of the launcher's.
void refuse_pipes(const JobPlan& job) {
    const auto is_pipe = [](const std::string& word) {
        const auto descriptor = descriptor_named(word.substr(word.find('=') + 1));
        struct stat info {};
        return descriptor && *descriptor > STDERR_FILENO && ::fstat(*descriptor, &info) == 0 &&
               S_ISFIFO(info.st_mode);
    };
    if (job.adapt) return;
    std::vector<std::vector<std::string>> commands = further_words(job);
    commands.push_back(job.program);
    for (const auto& words : commands) {
        const auto pipe = std::find_if(words.begin() + 1, words.end(), is_pipe);
        if (pipe != words.end())
            throw UsageError(fmt::format(
                "{} {}: a pipe of this process's, which workers do not get; write it to a file, and give that",
                harmless_line(words.front()), harmless_line(*pipe)));
    }
}

bool is_others(const JobPlan& job) {
    return job.tty_rank || job.origins.contains("--stdin") || job.secret_file == "-";
}

void check_text(const JobPlan& job, const std::string& text, const std::string& name) {
    if (text.empty())
        throw UsageError(fmt::format(
            "{}: its program is to be read from standard input, which is empty{}", name,
            job.adapt ? ", as task launchers give it to one task only; put the program into a file" : ""));
    if (!descriptor_named(job.program.front())) return;
    if (job.no_python)
        throw UsageError(fmt::format(
            "--no-python: what is read from {} cannot be executed itself; name what runs it: bash -s", name));
    if (const std::string other = other_interpreter(text); !other.empty())
        throw UsageError(fmt::format(
            "{0}: its first line is for {1}, and Python would run it; name that in front: {1} {0}", name,
            other));
}

std::optional<ProgramInput> input_of(const JobPlan& job) {
    return job.module ? std::nullopt : program_input(job.program);
}

JobPlan with_input(JobPlan job, const ProgramInput& input) {
    const std::string name = name_of(input, job);
    const bool is_terminal = ::isatty(input.descriptor) != 0;
    if (is_terminal && (input.in_text || job.adapt)) return job;
    if (is_terminal)
        throw UsageError(fmt::format(
            "{}: its program is to be read from standard input, which is a terminal; give a file, or --tty 0",
            name));
    std::string text = read_all(job, input.descriptor, name);
    if (text.empty() && input.in_text) return job;
    check_text(job, text, name);
    name_standard_input(job.program, input);
    name_standard_input(job.start.program_words, input);
    job.read_program = std::make_shared<const std::string>(std::move(text));
    return job;
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

JobPlan with_read_program(JobPlan job) {
    if (job.dry_run || job.explain || job.show || job.program.empty()) return job;
    if (!is_others(job)) {
        refuse_further(job);
        const auto input = input_of(job);
        if (input && !input->is_unsure) job = with_input(std::move(job), *input);
    }
    refuse_pipes(job);
    return job;
}

JobPlan with_starters_program(JobPlan job, const std::string& path) {
    if (path.empty()) return job;
    auto text = read_small_file(path, kMaxReadProgram);
    if (!text)
        throw UsageError("the program that the starter has read did not come: " + text.error().message());
    job.read_program = std::make_shared<const std::string>(*std::move(text));
    return job;
}

std::string unread_input(const JobPlan& job) {
    if (job.read_program || job.secret_file == "-" || !has_input()) return {};
    if (job.detach)
        return "--detach: workers read nothing, though standard input has something; give it to them in a "
               "file";
    return fmt::format(
        "{}: workers read nothing, though standard input has something; give it to them in a file on their "
        "hosts, or type < /dev/null",
        hosts_flag(job));
}

std::string half_read_program(const JobPlan& job) {
    if (job.detach || job.standard_input.all || is_others(job) || !has_input()) return {};
    const auto input = input_of(job);
    if (!input || !input->is_unsure) return {};
    return fmt::format(
        "{}: only rank 0 reads standard input, and the text may run a program from it; put the program into "
        "a file, or type --stdin 0",
        harmless_line(job.program.front()));
}

}  // namespace app
}  // namespace ddprun
