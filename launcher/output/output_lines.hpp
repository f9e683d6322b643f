// LineSplitter, LastLines and ConsoleText make lines of output, from the bytes of a stream to what consoles
// and reports show. Pure.
//
// LineSplitter cuts the bytes of one stream into blocks of whole lines.
//
// A carriage return inside a line begins the line anew, as progress bars use it: of such a line only the last
// state that is not empty goes on. A carriage return right before the newline belongs to the line's end and
// stays. Everything else goes on byte for byte and in order.
//
// Bounded: an unfinished line is held only up to kMaxLine bytes, then it goes on in pieces, which are the
// only blocks that do not end with a newline. A LineSplitter serves one stream, from one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/failure.hpp"
#include "rendezvous/job/failure_reason.hpp"
#include "rendezvous/job/raised_words.hpp"

namespace ddprun {
inline namespace launch {

class LineSplitter {
  public:
    static constexpr std::size_t kMaxLine = 256 * 1024;

    // Calls sink(std::string_view) for what may go on; the view is valid during the call.
    template <typename Sink>
    void push(std::string_view bytes, Sink&& sink) {
        const std::size_t end = whole_lines(bytes);
        if (!held_.empty() && end != 0) {
            const std::size_t first = bytes.find('\n') + 1;
            held_ += bytes.substr(0, first);
            give(held_, sink);
            held_.clear();
            give(bytes.substr(first, end - first), sink);
        } else {
            give(bytes.substr(0, end), sink);
        }
        hold(bytes.substr(end));
        if (held_.size() > kMaxLine) {
            sink(std::string_view(held_));
            held_.clear();
        }
    }

    // Shows the line that has not ended yet, in its last state.
    std::string_view unfinished() const;

    // Takes what is left at the end of the stream; nothing is held afterwards.
    std::string take_rest();

  private:
    static std::size_t whole_lines(std::string_view bytes);
    static bool has_update(std::string_view block);
    void hold(std::string_view bytes);
    void collapse(std::string_view block);

    template <typename Sink>
    void give(std::string_view block, Sink&& sink) {
        if (block.empty()) return;
        if (!has_update(block)) return sink(block);
        collapse(block);
        sink(std::string_view(collapsed_));
    }

    std::string held_;
    std::string collapsed_;
};

// LastLines keeps the end of a stream for the failure report. Where the reason stands further above, the
// reason comes first, then a line that says how many are left out (last_words()).
//
// Bounded: kMaxLastLines lines in all, each cut at kMaxLastLineText bytes (control_message.hpp). Fed with the
// blocks of a LineSplitter.
class LastLines {
  public:
    // Takes whole lines, or a piece of a line, which the next block continues.
    void add(std::string_view block);

    // Returns the last lines without their newlines, oldest first. An unfinished line is the last one;
    // `unfinished` is what came behind the last block.
    std::vector<std::string> lines(std::string_view unfinished = {}) const;

    // Returns what has been raised, by the lines that have ended.
    const RaisedWords& raised() const { return raised_; }

  private:
    void append(std::string_view text, bool ended);

    std::deque<std::string> lines_;
    bool open_ = false;     // the last of `lines_` has not ended
    FailureReason reason_;  // among the lines that have left `lines_`
    RaisedWords raised_;
};

// ConsoleText says what to write so that one console shows the lines of many streams without tearing any.
//
// The rule: on one line of the console stands the text of one stream only. Lines go out whole. A stream may
// leave a line unfinished (its last bytes without newline, or a piece of a line too long to be held). If
// another stream comes then, a newline goes between them; else the bytes stay exactly as they were.
//
// On a terminal there is also one passing line at the bottom, for lines that have not ended: a progress bar's
// state, or the beginning of a line. The passing line is erased before anything else is written.

class ConsoleText {
  public:
    // Returns true if `block` may be written as it is; wrote_as_is() must follow then.
    bool takes_as_is(int stream, std::string_view prefix) const;
    void wrote_as_is(int stream, std::string_view block);

    // Appends to `out` what shows `block` (whole lines, or a piece of one) with `prefix` before each line.
    // `stream` is a number of the caller's, not negative and never used again for another stream.
    void add(std::string& out, int stream, std::string_view prefix, std::string_view block);

    // Returns true if the stream's line has not ended, and no other one stands behind it.
    bool is_open(int stream) const { return open_stream_ == stream; }
    // Returns true if the line of some stream has not ended.
    bool has_open_line() const { return open_stream_ >= 0; }

    // Appends, for terminals only, what shows `text` as the passing line, cut to `columns`. The passing line
    // continues an unfinished line of the same stream.
    void pass(std::string& out, int stream, std::string_view prefix, std::string_view text,
              std::size_t columns);

    // Erases the passing line, if there is one.
    void erase_passing(std::string& out);

    // Appends, for terminals only, what is needed so that the next text begins on a line of its own.
    void end_line(std::string& out);

  private:
    void make_room(std::string& out, int stream);

    int open_stream_ = -1;  // the cursor stands behind the unfinished line of this stream; -1: of none
    bool passing_ = false;
};

// Cuts a line to the beginning that takes no more than `columns` columns: one for each UTF-8 character, none
// for escape sequences, which are all kept.
std::string fit_to_columns(std::string_view line, std::size_t columns);

}  // namespace launch
}  // namespace ddprun
