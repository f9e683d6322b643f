#include "launcher/plan/program_file.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace ddprun {
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

}  // namespace

bool is_for_python(const std::string& name, const std::string& executable) {
    const bool is_command = name.find('/') == name.npos;
    if (is_command && !executable.empty()) return false;
    std::error_code ignored;
    if (std::filesystem::is_directory(name, ignored))
        return std::filesystem::is_regular_file(std::filesystem::path(name) / "__main__.py", ignored);
    if (!std::filesystem::is_regular_file(name, ignored)) return false;
    const std::string beginning = beginning_of(name);
    if (beginning.starts_with(kZip)) return true;
    return executable.empty() && !beginning.starts_with(kBinary) && !names_other_interpreter(beginning);
}

}  // namespace ddprun
