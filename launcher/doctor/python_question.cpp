#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/doctor/questions.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kFileMark = "ddprun-doctor-file ";
constexpr std::string_view kPythonMark = "ddprun-doctor-python ";
constexpr std::string_view kTorchMark = "ddprun-doctor-torch ";

// What lies in the current folder is not to be taken for a module of Python's.
constexpr const char* kPythonCode =
    "import sys\n"
    "sys.path = [path for path in sys.path if path]\n"
    "print('ddprun-doctor-python', '.'.join(map(str, sys.version_info[:3])))\n"
    "try:\n"
    "    from importlib.metadata import distribution\n"
    "    torch = distribution('torch')\n"
    "    print('ddprun-doctor-torch', torch.version, 'in', torch.locate_file(''))\n"
    "except Exception:\n"
    "    pass\n";

}  // namespace

std::function<void()> ask_python(const std::vector<std::string>& candidates) {
    return [candidates] {
        for (const std::string& file : candidates) {
            struct stat what {};
            if (::stat(file.c_str(), &what) != 0 || !S_ISREG(what.st_mode)) continue;
            if (::access(file.c_str(), X_OK) != 0) continue;
            const std::string found = fmt::format("{}{}\n", kFileMark, file);
            [[maybe_unused]] const ssize_t sent = ::write(STDOUT_FILENO, found.data(), found.size());
            // execv promises not to change them.
            char* const argv[] = {const_cast<char*>(file.c_str()), const_cast<char*>("-c"),
                                  const_cast<char*>(kPythonCode), nullptr};
            ::execv(file.c_str(), argv);
            return;
        }
    };
}

PythonFacts python_facts(const std::string& wanted, const BoundedChild::Answer& answer) {
    PythonFacts facts{wanted, "", answer.end, "", ""};
    const auto take = [](std::string_view line, std::string_view mark, std::string& value) {
        if (line.starts_with(mark)) value = line.substr(mark.size());
    };
    for (const std::string_view line : lines_of(answer.bytes)) {
        take(line, kFileMark, facts.file);
        take(line, kPythonMark, facts.version);
        take(line, kTorchMark, facts.torch);
    }
    return facts;
}

}  // namespace ddprun::inline launch
