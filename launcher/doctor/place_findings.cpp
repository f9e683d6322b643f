#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "launcher/doctor/diagnosis.hpp"
#include "rendezvous/system/number_text.hpp"

namespace ddprun::inline launch {
namespace {

std::string elsewhere(const FolderFacts& folder) {
    return folder.role == "logs" ? "another folder for --log-dir" : "another folder by TMPDIR";
}

}  // namespace

Finding folder_finding(const FolderFacts& folder) {
    const std::string& about = folder.path;
    const std::string other = folder.is_written ? elsewhere(folder) : "start ddprun in another folder";
    const bool is_above = !folder.tried.empty() && folder.tried != folder.path;
    const std::string what =
        folder.role + ": " + (is_above ? fmt::format("is to be made in {}: ", folder.tried) : "");
    if (folder.end == AnswerEnd::hangs)
        return problem_finding("folder", what + "hangs; the file system does not answer",
                               "see which server it is on (/proc/mounts); " + other, about);
    if (folder.end == AnswerEnd::failed)
        return warning_finding("folder", what + "the process that was to look at it has died",
                               "see whether the node is short of memory or processes", about);
    if (!folder.failed_step.empty()) {
        const bool is_full = folder.error_number == ENOSPC || folder.error_number == EDQUOT;
        const std::string text =
            fmt::format("{}{}: {}", what, folder.failed_step, std::strerror(folder.error_number));
        return problem_finding("folder", text,
                               is_full ? "remove what is no longer needed, or " + other
                                       : "correct its owner or its mode (ls -ld), or " + other,
                               about);
    }
    if (!folder.is_written) return ok_finding("folder", what + "can be reached", about);
    const std::string text =
        fmt::format("{}{} of {} are free", what, size_text(folder.free), size_text(folder.size));
    const std::string remedy = "remove what is no longer needed, or " + other;
    if (folder.counts_files && folder.free_files < kLeastFolderFiles)
        return warning_finding(
            "folder", fmt::format("{}, but for {} more files only", text, folder.free_files), remedy, about);
    if (folder.free < kLeastFolderSpace) return problem_finding("folder", text, remedy, about);
    if (folder.free < kLittleFolderSpace) return warning_finding("folder", text, remedy, about);
    return ok_finding("folder", text, about);
}

Finding python_finding(const PythonFacts& python) {
    if (python.end == AnswerEnd::hangs)
        return problem_finding(
            "python",
            python.file.empty() ? python.wanted + " is looked for, which hangs" : python.file + " hangs",
            "see on which servers the folders of PATH are (/proc/mounts), or name another Python by "
            "PYTHON_EXEC");
    if (python.file.empty())
        return warning_finding("python", python.wanted + " is not on PATH",
                               "activate the environment that has it, or name it by PYTHON_EXEC; programs "
                               "that are not for Python need none");
    if (python.version.empty())
        return problem_finding("python", python.file + " does not run a line of Python",
                               fmt::format("try {} -c pass; name another one by PYTHON_EXEC", python.file));
    return ok_finding("python", fmt::format("{}, {}", python.file, python.version));
}

Finding torch_finding(const PythonFacts& python) {
    if (python.torch.empty())
        return ok_finding("pytorch", python.version.empty() ? "not looked for, without Python"
                                                            : "none that this Python finds");
    return ok_finding("pytorch", python.torch);
}

}  // namespace ddprun::inline launch
