#include "tests/launcher/look/memory_image.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPiece = 1 << 20;

std::optional<std::uint64_t> hex_number(std::string_view text) {
    return whole_number<std::uint64_t>(text, 0, ~std::uint64_t{0}, 16);
}

std::string_view take_line(std::string_view& rest) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    return line;
}

}  // namespace

MemoryImage MemoryImage::parse(std::string_view bytes) {
    MemoryImage image;
    while (!bytes.empty()) {
        const auto line = take_line(bytes);
        const auto words = split_at(line, ' ');
        if (words[0] == "maps") {
            if (auto mapping = parse_mapping(line.substr(std::min<std::size_t>(5, line.size()))))
                image.mappings.push_back(std::move(*mapping));
        } else if (words[0] == "threads") {
            for (const auto word : words)
                if (const auto number = whole_number<pid_t>(word)) image.threads.push_back(*number);
        } else if (words[0] == "at" && words.size() == 3) {
            const auto address = hex_number(words[1]), size = hex_number(words[2]);
            if (!address || !size || *size > std::min(kMaxPiece, bytes.size())) break;
            const auto piece = std::as_bytes(std::span(bytes.substr(0, *size)));
            image.pieces[*address].assign(piece.begin(), piece.end());
            bytes.remove_prefix(*size);
            take_line(bytes);
        }
    }
    return image;
}

std::string MemoryImage::to_bytes() const {
    std::string text;
    for (const auto& mapping : mappings)
        text += fmt::format("maps {:x}-{:x} {} {:x} 00:00 0 {}\n", mapping.begin, mapping.end,
                            mapping.permissions, mapping.offset, mapping.path);
    text += "threads";
    for (const pid_t thread : threads) text += fmt::format(" {}", thread);
    text += '\n';
    for (const auto& [address, piece] : pieces) {
        text += fmt::format("at {:x} {:x}\n", address, piece.size());
        text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        text += '\n';
    }
    return text;
}

bool MemoryImage::read(std::uintptr_t address, std::span<std::byte> into) const {
    const auto behind = pieces.upper_bound(address);
    if (behind == pieces.begin()) return into.empty();
    const auto& [begin, piece] = *std::prev(behind);
    const std::size_t offset = address - begin;
    if (offset > piece.size() || into.size() > piece.size() - offset) return into.empty();
    std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
    return true;
}

bool RecordingReader::read(std::uintptr_t address, std::span<std::byte> into) const {
    ++reads_;
    if (!memory_.read(address, into)) return false;
    for (std::size_t i = 0; i < into.size(); ++i) bytes_[address + i] = into[i];
    return true;
}

std::map<std::uintptr_t, std::vector<std::byte>> RecordingReader::pieces() const {
    std::map<std::uintptr_t, std::vector<std::byte>> pieces;
    for (auto last = pieces.end(); const auto& [address, byte] : bytes_) {
        if (last == pieces.end() || last->first + last->second.size() != address)
            last = pieces.try_emplace(address).first;
        last->second.push_back(byte);
    }
    return pieces;
}

}  // namespace ddprun
