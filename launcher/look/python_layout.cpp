#include "launcher/look/python_layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace ddprun {
inline namespace launch {
namespace {

using LineTable = PythonLayout::LineTable;

constexpr std::uint32_t kFinalRelease = 0xf;
constexpr std::uint32_t kFirstMinor = 8;
constexpr std::uint32_t kFirstMinorWithOffsets = 13;
// An interpreter has some hundred thousand bytes.
constexpr std::uint64_t kMaxOffset = 16 * 1024 * 1024;
constexpr std::uint64_t kNumber = sizeof(std::uint32_t);
constexpr std::size_t kFreeThreadedWord = 2;

std::uint32_t minor_of(std::uint32_t version) { return version >> 16 & 0xff; }

constexpr auto kNone = std::nullopt;
// clang-format off
// From 3.8 to 3.12, in the order of PythonLayout's members: of _PyRuntime and interpreters, thread
// states, frames, code objects, texts.
constexpr std::array<PythonLayout, 5> kTables = {{
    {32, 0, 8, kNone, true, 1160, 1168, 8, 24, kNone, 176, kNone, 24, 32, 104, kNone,
     104, 112, 120, 40, kNone, 1, LineTable::steps, 32, 48, 72},
    {32, 0, 8, kNone, true, 360, 368,   8, 24, kNone, 176, kNone, 24, 32, 104, kNone,
     104, 112, 120, 40, kNone, 1, LineTable::steps, 32, 48, 72},
    {32, 0, 8, kNone, true, 360, 368,   8, 24, kNone, 176, kNone, 24, 32, 96, kNone,
     104, 112, 120, 40, kNone, 2, LineTable::ranges, 32, 48, 72},
    {40, 0, 16, kNone, true, 368, 376,  8, 56, 8, 152, 160, 48, 32, 56, 69,
     112, 128, 136, 72, 184, 1, LineTable::locations, 32, 48, 72},
    {40, 0, 72, kNone, false, 1048, 1056, 8, 56, 0, 136, 144, 8, 0, 56, 70,
     112, 128, 136, 68, 192, 1, LineTable::locations, 32, 40, 56},
}};
// clang-format on

// OffsetGroup: a structure of CPython of which the table tells; its words begin with the structure's size.
enum class OffsetGroup { runtime, interpreter, thread, frame, code, text, collector };

// OffsetForm: the number of each group's first word in a version's table, and places in groups that have
// moved.
struct OffsetForm {
    std::array<std::size_t, 7> first_words;
    std::size_t collector, lock_taken, lock_holder, pthread, native_id;
};

constexpr std::array<OffsetForm, 3> kForms = {{
    {{3, 6, 19, 28, 34, 67, 71}, 4, 11, 12, 5, 6},  // 3.13
    {{3, 6, 22, 31, 39, 77, 81}, 5, 12, 13, 5, 6},  // 3.14
    {{3, 6, 22, 39, 47, 89, 94}, 5, 12, 13, 8, 9},  // 3.15
}};

// OffsetTable reads the offsets by group and place.
class OffsetTable {
  public:
    OffsetTable(const OffsetForm& form, std::span<const std::uint64_t> words) : form_(form), words_(words) {}

    // Returns an offset at which the structure of that group, of which at most `most` bytes count, has
    // `width` bytes.
    std::size_t take(OffsetGroup group, std::size_t place, std::uint64_t most = PythonLayout::kMaxObject,
                     std::uint64_t width = sizeof(std::uintptr_t)) {
        const std::uint64_t size = std::min(word(group, 0), most);
        const std::uint64_t offset = word(group, place);
        is_sound_ = is_sound_ && size >= width && offset <= size - width;
        return is_sound_ ? static_cast<std::size_t>(offset) : 0;
    }

    // Returns false once an offset was none.
    bool is_sound() const { return is_sound_; }

  private:
    // Returns 0 for a word that is not there.
    std::uint64_t word(OffsetGroup group, std::size_t place) const {
        const std::size_t number = form_.first_words[static_cast<std::size_t>(group)] + place;
        return number < words_.size() ? words_[number] : 0;
    }

    const OffsetForm& form_;
    std::span<const std::uint64_t> words_;
    bool is_sound_ = true;
};

std::optional<PythonLayout> layout_of_offsets(const OffsetForm& form, std::span<const std::uint64_t> words) {
    using enum OffsetGroup;
    OffsetTable table(form, words);
    PythonLayout layout{
        .interpreters = table.take(runtime, 2, kMaxOffset),
        .next_interpreter = table.take(interpreter, 2, kMaxOffset),
        .threads = table.take(interpreter, 3, kMaxOffset),
        .lock_holder = table.take(interpreter, form.lock_holder, kMaxOffset),
        .lock_taken = table.take(interpreter, form.lock_taken, kMaxOffset, kNumber),
        .next_thread = table.take(thread, 2),
        .thread_frame = table.take(thread, 4),
        .thread_pthread = table.take(thread, form.pthread),
        .thread_native_id = table.take(thread, form.native_id),
        .frame_previous = table.take(frame, 1),
        .frame_code = table.take(frame, 2),
        .frame_position = table.take(frame, 3),
        .frame_owner = table.take(frame, 5, PythonLayout::kMaxObject, 1),
        .code_file = table.take(code, 1),
        .code_name = table.take(code, 3),
        .code_lines = table.take(code, 4),
        .code_first_line = table.take(code, 5, PythonLayout::kMaxObject, kNumber),
        .code_instructions = table.take(code, 9, PythonLayout::kMaxObject, 1),
        .lines = LineTable::locations,
        .text_state = table.take(text, 1, PythonLayout::kMaxObject, kNumber),
        .ascii_text = table.take(text, 3, PythonLayout::kMaxObject, 0),
    };
    layout.other_text =
        layout.ascii_text + 2 * sizeof(std::uintptr_t);  // behind its UTF-8 and how long that is
    layout.collecting =
        table.take(interpreter, form.collector, kMaxOffset) + table.take(collector, 1, kMaxOffset, kNumber);
    if (!table.is_sound()) return std::nullopt;
    return layout;
}

LayoutOrReason refused(std::uint32_t version, std::string_view why) {
    return {std::nullopt,
            fmt::format("the stacks of Python {} are not known: {}", python_version_text(version), why)};
}

}  // namespace

LayoutOrReason python_layout(std::uint32_t version, bool is_debug_build,
                             std::span<const std::uint64_t> offsets) {
    const std::uint32_t minor = minor_of(version);
    if (version >> 24 != 3 || minor < kFirstMinor || minor >= kFirstMinorWithOffsets + kForms.size())
        return refused(version, "only those of 3.8 to 3.15 are");
    if ((version >> 4 & 0xf) != kFinalRelease) return refused(version, "it is no final release");
    if (minor < kFirstMinorWithOffsets) {
        if (is_debug_build) return refused(version, "it is a build for debugging");
        return {kTables[minor - kFirstMinor], {}};
    }
    if (version_in_offsets(offsets) != version) return refused(version, "its table of offsets is another's");
    if (offsets[kFreeThreadedWord] != 0)
        return refused(version, "it is a build without the interpreter's lock");
    auto layout = layout_of_offsets(kForms[minor - kFirstMinorWithOffsets], offsets);
    if (!layout) return refused(version, "its table of offsets makes no sense");
    return {layout, {}};
}

std::optional<std::uint32_t> version_in_offsets(std::span<const std::uint64_t> offsets) {
    constexpr std::string_view kMark = "xdebugpy";
    if (offsets.size() <= kFreeThreadedWord || offsets[1] > ~std::uint32_t{0}) return std::nullopt;
    if (std::memcmp(offsets.data(), kMark.data(), kMark.size()) != 0) return std::nullopt;
    return static_cast<std::uint32_t>(offsets[1]);
}

std::string python_version_text(std::uint32_t version) {
    const std::uint32_t level = version >> 4 & 0xf, micro = version >> 8 & kUnknownMicro;
    std::string text = fmt::format("{}.{}", version >> 24, minor_of(version));
    if (micro != kUnknownMicro) text += fmt::format(".{}", micro);
    if (level != kFinalRelease) text += fmt::format("{:x}{}", level, version & 0xf);
    return text;
}

}  // namespace launch
}  // namespace ddprun
