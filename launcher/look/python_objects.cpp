#include "launcher/look/python_objects.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "launcher/look/object_bytes.hpp"
#include "launcher/look/python_lines.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Address = std::uintptr_t;

// Where every object has its type, every one of variable size its count, a text its count, bytes their
// content, and a type its name: in all versions.
constexpr std::size_t kType = 8;
constexpr std::size_t kCount = 16;
constexpr std::size_t kBytesContent = 32;
constexpr std::size_t kTypeName = 24;
// Since 3.14 the interpreter marks references in these bits.
constexpr Address kTagBits = 3;
constexpr std::uint8_t kFirstMarkOwner = 3;  // owners of frames from here on are the interpreter itself

// TextState: how the characters of a text are kept, from the lowest bit: 2 bits, the width, whether behind
// the head, ASCII.
constexpr unsigned kWidthShift = 2;
constexpr std::uint32_t kWidthMask = 7;
constexpr std::uint32_t kCompactBit = 1 << 5;
constexpr std::uint32_t kAsciiBit = 1 << 6;

void append_utf8(std::string& text, std::uint32_t character) {
    constexpr std::uint32_t kReplacement = 0xfffd;
    if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) character = kReplacement;
    constexpr std::array kFirstBytes = {0, 0xc0, 0xe0, 0xf0};
    std::size_t more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    text += static_cast<char>(kFirstBytes[more] | character >> 6 * more);
    while (more-- > 0) text += static_cast<char>(0x80 | (character >> 6 * more & 0x3f));
}

// Returns the characters, each of `width` bytes.
std::string to_utf8(std::string_view characters, std::size_t width) {
    std::string text;
    for (; !characters.empty(); characters.remove_prefix(width)) {
        std::uint32_t character = 0;
        std::memcpy(&character, characters.data(), width);  // the lowest byte comes first
        append_utf8(text, character);
    }
    return text;
}

}  // namespace

std::optional<PythonObjects::PythonFrame> PythonObjects::frame(Address address) const {
    const std::size_t owner = layout_.frame_owner.value_or(0);
    const auto object = ObjectBytes::read(
        memory_, address, {layout_.frame_previous, layout_.frame_code, layout_.frame_position, owner});
    if (!object) return std::nullopt;
    PythonFrame frame;
    frame.previous = object->at<Address>(layout_.frame_previous);
    frame.code = object->at<Address>(layout_.frame_code) & ~kTagBits;
    // A number of instructions has four bytes.
    frame.position = layout_.code_instructions
                         ? object->at<std::uint64_t>(layout_.frame_position)
                         : static_cast<std::uint64_t>(object->at<std::int32_t>(layout_.frame_position));
    frame.is_call = !layout_.frame_owner || object->at<std::uint8_t>(owner) < kFirstMarkOwner;
    return frame;
}

std::optional<Frame> PythonObjects::told(const PythonFrame& frame) {
    const Code* found = code(frame.code);
    if (found == nullptr) return std::nullopt;
    const std::int64_t instruction =
        layout_.code_instructions
            ? static_cast<std::int64_t>(frame.position - (frame.code + *layout_.code_instructions))
            : static_cast<std::int64_t>(frame.position) * layout_.position_unit;
    line_work_ += found->lines.size();
    if (line_work_ > kMaxLineWork) return Frame{found->function, found->file, 0, false};
    const int line =
        line_at(layout_.lines, std::as_bytes(std::span(found->lines)), found->first_line, instruction);
    return Frame{found->function, found->file, line, false};
}

const PythonObjects::Code* PythonObjects::code(Address address) {
    const auto [place, is_new] = codes_.try_emplace(address);
    if (is_new) place->second = read_code(address);
    return place->second ? &*place->second : nullptr;
}

std::optional<PythonObjects::Code> PythonObjects::read_code(Address address) {
    const auto object = ObjectBytes::read(
        memory_, address,
        {kType, layout_.code_file, layout_.code_name, layout_.code_lines, layout_.code_first_line});
    if (!object || !is_code_type(object->at<Address>(kType))) return std::nullopt;
    const auto [file, is_new] = files_.try_emplace(object->at<Address>(layout_.code_file));
    if (is_new) file->second = text(file->first);
    auto function = text(object->at<Address>(layout_.code_name));
    if (!function || !file->second) return std::nullopt;
    Code code{std::move(*function), *file->second, object->at<std::int32_t>(layout_.code_first_line), {}};
    code.lines = line_table(object->at<Address>(layout_.code_lines)).value_or("");
    return code;
}

bool PythonObjects::is_code_type(Address type) {
    if (type == code_type_) return type != 0;
    const auto name = memory_.value<Address>(type + kTypeName);
    if (!name || memory_.text(*name, sizeof "code") != "code") return false;
    code_type_ = type;
    return true;
}

std::optional<std::string> PythonObjects::line_table(Address address) const {
    const auto count = memory_.value<std::uint64_t>(address + kCount);
    if (!count || *count > kMaxLineTable) return std::nullopt;
    std::string table(*count, '\0');
    if (!memory_.read(address + kBytesContent, std::as_writable_bytes(std::span(table)))) return std::nullopt;
    return table;
}

std::optional<std::string> PythonObjects::text(Address address) const {
    const auto head = ObjectBytes::read(memory_, address, {kCount, layout_.text_state});
    if (!head) return std::nullopt;
    const auto count = head->at<std::uint64_t>(kCount);
    const auto state = head->at<std::uint32_t>(layout_.text_state);
    const std::size_t width = state >> kWidthShift & kWidthMask;
    const bool is_ascii = (state & kAsciiBit) != 0;
    if ((state & kCompactBit) == 0 || (width != 1 && (is_ascii || (width != 2 && width != 4))))
        return std::nullopt;
    const std::size_t most = is_ascii ? kMaxName : kMaxName / 4;  // a character has up to four bytes
    std::string characters(std::min<std::uint64_t>(count, most) * width, '\0');
    const Address begin = address + (is_ascii ? layout_.ascii_text : layout_.other_text);
    if (!memory_.read(begin, std::as_writable_bytes(std::span(characters)))) return std::nullopt;
    return is_ascii ? characters : to_utf8(characters, width);
}

}  // namespace launch
}  // namespace ddprun
