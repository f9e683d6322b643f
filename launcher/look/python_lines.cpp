#include "launcher/look/python_lines.hpp"

#include <limits>

namespace ddprun {
inline namespace launch {
namespace {

using Bytes = std::span<const std::byte>;

constexpr unsigned kBitsOfPiece = 6;  // of a varint

// Takes the next byte; 0 at the end.
std::uint8_t take_byte(Bytes& rest) {
    if (rest.empty()) return 0;
    const auto byte = std::to_integer<std::uint8_t>(rest.front());
    rest = rest.subspan(1);
    return byte;
}

std::uint32_t take_varint(Bytes& rest) {
    std::uint32_t number = 0;
    for (unsigned shift = 0;; shift += kBitsOfPiece) {
        const std::uint32_t byte = take_byte(rest);
        if (shift < std::numeric_limits<std::uint32_t>::digits) number |= (byte & 0x3f) << shift;
        if ((byte & 0x40) == 0) return number;
    }
}

std::int64_t take_signed_varint(Bytes& rest) {
    const std::uint32_t number = take_varint(rest);
    const std::int64_t half = number >> 1;
    return (number & 1) != 0 ? -half : half;
}

// Lines of a hostile table may be any.
int sound_line(std::int64_t line) {
    return line > 0 && line <= std::numeric_limits<int>::max() ? static_cast<int>(line) : 0;
}

// Of co_lnotab: bytes since the last step, lines since then.
int line_of_steps(Bytes table, int first_line, std::int64_t instruction) {
    std::int64_t line = first_line;
    for (std::int64_t address = 0; table.size() >= 2;) {
        address += take_byte(table);
        if (address > instruction) break;
        line += static_cast<std::int8_t>(take_byte(table));
    }
    return sound_line(line);
}

// Of 3.10's co_linetable: a range's bytes, lines since the last range; the least number: this range has no
// line.
int line_of_ranges(Bytes table, int first_line, std::int64_t instruction) {
    std::int64_t line = first_line;
    for (std::int64_t end = 0; table.size() >= 2;) {
        end += take_byte(table);
        const auto lines = static_cast<std::int8_t>(take_byte(table));
        const bool has_line = lines != std::numeric_limits<std::int8_t>::min();
        if (has_line) line += lines;
        if (instruction < end) return has_line ? sound_line(line) : 0;
    }
    return sound_line(first_line);
}

// Of co_linetable from 3.11 on: a byte with the kind of entry and its words of two bytes, then what that kind
// has.
int line_of_locations(Bytes table, int first_line, std::int64_t instruction) {
    std::int64_t line = first_line;
    for (std::int64_t end = 0; !table.empty();) {
        const std::uint8_t entry = take_byte(table);
        const int kind = entry >> 3 & 0xf;
        end += ((entry & 7) + 1) * 2;
        bool has_line = true;
        if (kind == 15) {
            has_line = false;
        } else if (kind == 14) {
            line += take_signed_varint(table);
            for (int i = 0; i < 3; ++i) take_varint(table);  // the last line, columns
        } else if (kind == 13) {
            line += take_signed_varint(table);
        } else if (kind >= 10) {
            line += kind - 10;
            table = table.subspan(std::min<std::size_t>(table.size(), 2));
        } else {
            take_byte(table);
        }
        if (instruction < end) return has_line ? sound_line(line) : 0;
    }
    return sound_line(first_line);
}

}  // namespace

int line_at(PythonLayout::LineTable form, std::span<const std::byte> table, int first_line,
            std::int64_t instruction) {
    if (instruction < 0) return sound_line(first_line);
    switch (form) {
        case PythonLayout::LineTable::steps: return line_of_steps(table, first_line, instruction);
        case PythonLayout::LineTable::ranges: return line_of_ranges(table, first_line, instruction);
        case PythonLayout::LineTable::locations: break;
    }
    return line_of_locations(table, first_line, instruction);
}

}  // namespace launch
}  // namespace ddprun
