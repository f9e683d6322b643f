// ConsoleText: what to write so that one console shows the lines of many streams without tearing any. Pure.
//
// The rule: on one line of the console stands the text of one stream only. Lines go out whole. Where a stream
// left a line unfinished (its last bytes without newline, or a piece of a line too long to be held) and
// another one comes, a newline goes between them; if nobody comes, the bytes stay exactly as they were.
//
// On a terminal there is also one passing line at the bottom, for lines that have not ended: a progress bar's
// state, or the beginning of a line. It is erased before anything else is written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::inline launch {

class ConsoleText {
  public:
    // True if `block` may be written as it is; wrote_as_is() must follow then.
    bool takes_as_is(int stream, std::string_view prefix) const;
    void wrote_as_is(int stream, std::string_view block);

    // Appends to `out` what shows `block` (whole lines, or a piece of one) with `prefix` before each line.
    // `stream` is a number of the caller's, not negative and never used again for another stream.
    void add(std::string& out, int stream, std::string_view prefix, std::string_view block);

    // Terminals only: appends what shows `text` as the passing line, cut to `columns`. An unfinished line of
    // the same stream is continued by it.
    void pass(std::string& out, int stream, std::string_view prefix, std::string_view text,
              std::size_t columns);

    // Erases the passing line, if there is one.
    void erase_passing(std::string& out);

    // Terminals only: appends what is needed so that the next text begins on a line of its own.
    void end_line(std::string& out);

  private:
    void make_room(std::string& out, int stream);

    int open_stream_ = -1;  // whose unfinished line the cursor stands behind
    bool passing_ = false;
};

// The beginning of a line that takes no more than `columns` columns: one for each UTF-8 character, none for
// escape sequences, which are all kept.
std::string fit_to_columns(std::string_view line, std::size_t columns);

}  // namespace ddprun::inline launch
