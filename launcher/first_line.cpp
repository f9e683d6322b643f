#include "launcher/first_line.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// The system reads 256 bytes of a script; a binary's loader is named behind its table of segments.
constexpr std::size_t kBeginning = 4096;
constexpr std::size_t kLineRead = 256;
constexpr std::string_view kMark = "#!";

template <typename Record>
bool read_at(std::string_view bytes, std::size_t at, Record& record) {
    if (at > bytes.size() || bytes.size() - at < sizeof record) return false;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    return true;
}

std::string loader_of(std::string_view bytes) {
    Elf64_Ehdr header;
    if (!read_at(bytes, 0, header) || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        if (!read_at(bytes, header.e_phoff + i * sizeof segment, segment)) return {};
        if (segment.p_type != PT_INTERP) continue;
        const std::string_view name =
            bytes.substr(std::min<std::size_t>(bytes.size(), segment.p_offset), segment.p_filesz);
        return std::string(name.substr(0, name.find('\0')));
    }
    return {};
}

}  // namespace

std::string beginning_of(const std::filesystem::path& file) {
    std::array<char, kBeginning> bytes{};
    std::ifstream stream(file, std::ios::binary);
    stream.read(bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(stream.gcount())};
}

FirstLine first_line_of(std::string_view beginning) {
    if (!beginning.starts_with(kMark)) return {};
    beginning = beginning.substr(0, kLineRead);
    std::string_view line = beginning.substr(kMark.size(), beginning.find('\n') - kMark.size());
    const bool ends_in_one = line.ends_with('\r');
    if (ends_in_one) line.remove_suffix(1);
    // Behind a blank it is a word of its own.
    FirstLine first{.carriage_return = ends_in_one && !line.ends_with(' ') && !line.ends_with('\t')};
    line = trimmed(line);
    const auto blank = std::min(line.find_first_of(" \t"), line.size());
    first.words.emplace_back(line.substr(0, blank));
    if (const std::string_view argument = trimmed(line.substr(blank)); !argument.empty())
        first.words.emplace_back(argument);
    return first;
}

bool is_binary(std::string_view beginning) { return beginning.starts_with(ELFMAG); }

std::string runner_of(std::string_view beginning) {
    if (is_binary(beginning)) return loader_of(beginning);
    const FirstLine first = first_line_of(beginning);
    if (first.words.empty()) return {};
    return first.words.front() + (first.carriage_return && first.words.size() == 1 ? "\r" : "");
}

}  // namespace launch
}  // namespace ddprun
