// Happenings: the last events of a job on this node, for clients that ask a running launcher. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "launcher/harmless_text.hpp"

namespace ddprun {
inline namespace launch {

class Happenings {
  public:
    // kMost: events that are kept; kMostBytes: of all their lines together.
    static constexpr std::size_t kMost = 512;
    static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

    // Takes whole lines, or nothing.
    void add(std::string_view lines) {
        for (const std::string_view line : lines_of(lines)) {
            lines_.emplace_back(line);
            bytes_ += line.size();
        }
        while (lines_.size() > kMost || bytes_ > kMostBytes) {
            bytes_ -= lines_.front().size();
            lines_.pop_front();
        }
    }

    // Returns the lines, the oldest first, each with its newline.
    std::string text() const {
        std::string text;
        for (const std::string& line : lines_) text += line + "\n";
        return text;
    }

  private:
    std::deque<std::string> lines_;
    std::size_t bytes_ = 0;
};

}  // namespace launch
}  // namespace ddprun
