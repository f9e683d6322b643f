// LineSplitter: cuts the bytes of one stream into blocks of whole lines. Pure.
//
// A carriage return inside a line begins the line anew, as progress bars use it: of such a line only the last
// state that is not empty goes on. A carriage return right before the newline belongs to the line's end and
// stays. Everything else goes on byte for byte and in order.
//
// Bounded: an unfinished line is held only up to kMaxLine bytes, then it goes on in pieces, which are the
// only blocks that do not end with a newline. One LineSplitter serves one stream, from one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::inline launch {

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

    // The line that has not ended yet, in its last state.
    std::string_view unfinished() const;

    // What is left at the end of the stream; nothing is held afterwards.
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

}  // namespace ddprun::inline launch
