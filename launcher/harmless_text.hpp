// harmless_line() and the functions here make text that workers and other hosts wrote fit for a terminal, for
// a message and for JSON. Pure.
//
// All bytes are possible in such a text. The result is always valid UTF-8; a byte that is not becomes U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// kMaxShownLine: how many bytes of one line are shown; the rest is replaced by "...".
inline constexpr std::size_t kMaxShownLine = 400;

// Returns the last state of a line without its newline (of a progress bar): what is behind the last carriage
// return. Carriage returns at the end are not part of it.
std::string_view last_state(std::string_view line);

// Returns one line that moves no cursor, changes no colour and hides nothing. Escape sequences are left out,
// a tab becomes blanks, and any other control character (C0, C1, bidirectional, line and paragraph
// separators) becomes '?'. A carriage return becomes '?', too: a foreign value in a sentence of ours must not
// overwrite what stands before it. Secrets are masked (masked_text), here and in cut_middle().
std::string harmless_line(std::string_view line, std::size_t limit = kMaxShownLine);

// Returns the same as harmless_line(), of a line that a program wrote: carriage returns leave only what they
// did not overwrite (last_state()).
std::string harmless_output_line(std::string_view line, std::size_t limit = kMaxShownLine);

// Returns the text with U+FFFD for what is no UTF-8; control characters stay.
std::string valid_utf8(std::string_view text);

// Returns at most `limit` bytes (at least 64) of valid UTF-8. A longer text keeps its first third and the
// rest from its end, with a line between them that says how much is left out.
std::string cut_middle(std::string_view text, std::size_t limit);

// Returns the parts between newlines; a newline at the end begins no further line.
std::vector<std::string_view> lines_of(std::string_view text);

// kLauncherMark stands before each of the launcher's own lines, so that they are told from its workers'.
inline constexpr std::string_view kLauncherMark = "ddprun: ";

}  // namespace launch
}  // namespace ddprun
