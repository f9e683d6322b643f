// PythonLayout says where an interpreter of CPython keeps what its stacks are read from. Pure.
//
// 3.8 to 3.12 by tables, from 3.13 on by the table of offsets with which _PyRuntime begins. A version that is
// not known is refused rather than guessed: so are alphas, betas and candidates, builds for debugging
// before 3.13, and those without the interpreter's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddprun {
inline namespace launch {

struct PythonLayout {
    // LineTable: how a code object tells the line of an instruction. Steps of bytes and lines (to 3.9),
    // ranges of bytes with lines (3.10), locations (from 3.11).
    enum class LineTable { steps, ranges, locations };
    // kMaxObject: thread states, frames and code objects are read up to here at most.
    static constexpr std::size_t kMaxObject = 1024;

    // interpreters: in _PyRuntime; an offset in bytes, as all that is below, if nothing else is said.
    std::size_t interpreters = 0;
    // next_interpreter and the next six are in an interpreter; the lock's in _PyRuntime if all share it.
    std::size_t next_interpreter = 0;
    std::size_t threads = 0;
    std::optional<std::size_t> collecting;  // nothing: not told
    bool is_lock_shared = false;
    std::size_t lock_holder = 0;
    std::size_t lock_taken = 0;
    // next_thread and the next four are in a thread state.
    std::size_t next_thread = 0;
    std::size_t thread_frame = 0;                // of its innermost frame
    std::optional<std::size_t> frame_in_cframe;  // else of a structure that has that frame here
    std::size_t thread_pthread = 0;
    std::optional<std::size_t> thread_native_id;
    // frame_previous and the next three are in a frame.
    std::size_t frame_previous = 0;
    std::size_t frame_code = 0;
    std::size_t frame_position = 0;
    std::optional<std::size_t> frame_owner;
    // code_file and the next four are in a code object.
    std::size_t code_file = 0;
    std::size_t code_name = 0;
    std::size_t code_lines = 0;
    std::size_t code_first_line = 0;
    // code_instructions: a frame's position is an address behind it; nothing: a number.
    std::optional<std::size_t> code_instructions;
    int position_unit = 1;  // what one of such a number is in bytes
    LineTable lines = LineTable::steps;
    // text_state: in a text, behind its count of characters; the next two are where these begin.
    std::size_t text_state = 0;
    std::size_t ascii_text = 0;
    std::size_t other_text = 0;
};

struct LayoutOrReason {
    std::optional<PythonLayout> layout;
    std::string why_not;  // if there is none
};

// kMaxOffsetWords: of the table of offsets, as many as a layout is read from.
inline constexpr std::size_t kMaxOffsetWords = 120;

// Returns what interpreters of that version (as PY_VERSION_HEX) have. `offsets` are the words with which
// _PyRuntime begins, of a version before 3.13 not looked at.
LayoutOrReason python_layout(std::uint32_t version, bool is_debug_build,
                             std::span<const std::uint64_t> offsets);

// Returns the version in that table; nothing if the words are no such table.
std::optional<std::uint32_t> version_in_offsets(std::span<const std::uint64_t> offsets);

// kUnknownMicro: the third part of a version of which only two are known.
inline constexpr std::uint32_t kUnknownMicro = 0xff;

// Returns "3.12.1", of a version as PY_VERSION_HEX; "3.12" if its micro is kUnknownMicro.
std::string python_version_text(std::uint32_t version);

}  // namespace launch
}  // namespace ddprun
