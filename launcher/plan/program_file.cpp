#include "launcher/plan/program_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "rendezvous/system/split.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kBeginning = 256;  // the system reads no more of a first line
constexpr std::string_view kZip = "PK\x03\x04";
constexpr std::string_view kBinary =
    "\x7f"
    "ELF";

std::string beginning_of(const std::filesystem::path& file) {
    std::array<char, kBeginning> bytes{};
    std::ifstream stream(file, std::ios::binary);
    stream.read(bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(stream.gcount())};
}

bool names_other_interpreter(std::string_view beginning) {
    if (!beginning.starts_with("#!")) return false;
    return beginning.substr(0, beginning.find('\n')).find("python") == beginning.npos;
}

// The system takes all behind the interpreter for one argument.
std::vector<std::string> interpreter_of(std::string_view beginning) {
    constexpr std::string_view kMark = "#!", kBlank = " \t\r";
    if (!beginning.starts_with(kMark)) return {};
    std::string_view line = trimmed(beginning.substr(kMark.size(), beginning.find('\n') - kMark.size()));
    const auto blank = std::min(line.find_first_of(kBlank), line.size());
    std::vector<std::string> words{std::string(line.substr(0, blank))};
    const std::string_view argument = trimmed(line.substr(blank));
    if (!argument.empty()) words.emplace_back(argument);
    return words;
}

}  // namespace

ProgramFile look_at_program(const std::string& name, const std::string& executable) {
    const bool is_command = name.find('/') == name.npos && !executable.empty();
    const std::filesystem::path file = is_command ? executable : name;
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
        return {.is_for_python = std::filesystem::is_regular_file(file / "__main__.py", ignored)};
    if (!std::filesystem::is_regular_file(file, ignored)) return {};
    const std::string beginning = beginning_of(file);
    ProgramFile found{.is_binary = beginning.starts_with(kBinary)};
    if (executable.empty()) {
        found.is_for_python =
            beginning.starts_with(kZip) || (!found.is_binary && !names_other_interpreter(beginning));
        return found;
    }
    found.is_for_python = !is_command && beginning.starts_with(kZip);
    found.interpreter = interpreter_of(beginning);
    found.real_name = std::filesystem::canonical(file, ignored).filename().string();
    return found;
}

}  // namespace ddprun::inline launch
