#include <unistd.h>

#include "launcher/doctor/questions.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun {
namespace {

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

std::function<void()> ask_python(const std::string& file) {
    return [file] {
        // execv promises not to change them.
        char* const argv[] = {const_cast<char*>(file.c_str()), const_cast<char*>("-c"),
                              const_cast<char*>(kPythonCode), nullptr};
        ::execv(file.c_str(), argv);
    };
}

PythonFacts python_facts(const std::string& wanted, const std::string& file,
                         const BoundedChild::Answer& answer) {
    PythonFacts facts{wanted, file, answer.end, "", ""};
    for (const std::string_view line : lines_of(answer.bytes)) {
        if (line.starts_with(kPythonMark)) facts.version = line.substr(kPythonMark.size());
        if (line.starts_with(kTorchMark)) facts.torch = line.substr(kTorchMark.size());
    }
    return facts;
}

}  // namespace ddprun
