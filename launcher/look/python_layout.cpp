#include "launcher/look/python_layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
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

PythonLayout layout_3_8() {
    return {.interpreters = 32,
            .next_interpreter = 0,
            .threads = 8,
            .is_lock_shared = true,
            .lock_holder = 1160,
            .lock_taken = 1168,
            .next_thread = 8,
            .thread_frame = 24,
            .thread_pthread = 176,
            .frame_previous = 24,
            .frame_code = 32,
            .frame_position = 104,
            .code_file = 104,
            .code_name = 112,
            .code_lines = 120,
            .code_first_line = 40,
            .text_state = 32,
            .ascii_text = 48,
            .other_text = 72};
}

PythonLayout layout_3_9() {
    PythonLayout layout = layout_3_8();
    layout.lock_holder = 360;
    layout.lock_taken = 368;
    return layout;
}

PythonLayout layout_3_10() {
    PythonLayout layout = layout_3_9();
    layout.frame_position = 96;
    layout.position_unit = 2;
    layout.lines = LineTable::ranges;
    return layout;
}

PythonLayout layout_3_11() {
    return {.interpreters = 40,
            .next_interpreter = 0,
            .threads = 16,
            .is_lock_shared = true,
            .lock_holder = 368,
            .lock_taken = 376,
            .next_thread = 8,
            .thread_frame = 56,
            .frame_in_cframe = 8,
            .thread_pthread = 152,
            .thread_native_id = 160,
            .frame_previous = 48,
            .frame_code = 32,
            .frame_position = 56,
            .frame_owner = 69,
            .code_file = 112,
            .code_name = 128,
            .code_lines = 136,
            .code_first_line = 72,
            .code_instructions = 184,
            .lines = LineTable::locations,
            .text_state = 32,
            .ascii_text = 48,
            .other_text = 72};
}

PythonLayout layout_3_12() {
    return {.interpreters = 40,
            .next_interpreter = 0,
            .threads = 72,
            .lock_holder = 1048,
            .lock_taken = 1056,
            .next_thread = 8,
            .thread_frame = 56,
            .frame_in_cframe = 0,
            .thread_pthread = 136,
            .thread_native_id = 144,
            .frame_previous = 8,
            .frame_code = 0,
            .frame_position = 56,
            .frame_owner = 70,
            .code_file = 112,
            .code_name = 128,
            .code_lines = 136,
            .code_first_line = 68,
            .code_instructions = 192,
            .lines = LineTable::locations,
            .text_state = 32,
            .ascii_text = 40,
            .other_text = 56};
}

constexpr std::array kTables = {layout_3_8, layout_3_9, layout_3_10, layout_3_11, layout_3_12};

// OffsetGroup: a structure of CPython of which the table tells, and its places in the words that do, by
// version. Each group begins with the structure's size.
enum class OffsetGroup {
    head,
    runtime,
    interpreter,
    thread,
    exception,
    frame,
    code,
    object,
    type,
    heap_type,
    tuple,
    list,
    set,
    dict,
    floating,
    integer,
    bytes,
    text,
    collector,
    count
};
constexpr auto kGroups = static_cast<std::size_t>(OffsetGroup::count);

struct OffsetForm {
    std::array<std::size_t, kGroups> words;
    std::size_t collector, lock_taken, lock_holder, pthread, native_id;  // places in their groups
};

constexpr std::array<OffsetForm, 3> kForms = {{
    {{3, 3, 13, 9, 0, 6, 10, 2, 4, 0, 3, 3, 0, 3, 2, 3, 3, 4, 2}, 4, 11, 12, 5, 6},   // 3.13
    {{3, 3, 16, 9, 0, 8, 11, 2, 4, 0, 3, 3, 4, 3, 2, 3, 3, 4, 2}, 5, 12, 13, 5, 6},   // 3.14
    {{3, 3, 16, 16, 1, 8, 11, 2, 6, 2, 3, 3, 4, 3, 2, 3, 3, 5, 5}, 5, 12, 13, 8, 9},  // 3.15
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
        const auto* begin = form_.words.begin();
        const std::size_t number = std::accumulate(begin, begin + static_cast<std::size_t>(group), place);
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
        return {kTables[minor - kFirstMinor](), {}};
    }
    if (version_in_offsets(offsets) != version) return refused(version, "its table of offsets is another's");
    if (offsets[kFreeThreadedWord] != 0)
        return refused(version, "it is a build without the interpreter's lock");
    auto layout = layout_of_offsets(kForms[minor - kFirstMinorWithOffsets], offsets);
    if (!layout) return refused(version, "its table of offsets makes no sense");
    return {std::move(layout), {}};
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
