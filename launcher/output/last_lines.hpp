// LastLines: the end of a stream, kept for the failure report. Pure.
//
// Bounded: kMaxLastLines lines, each cut at kMaxLastLineText bytes (control_message.hpp). Fed with the blocks
// of a LineSplitter; of a block it reads only the end.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline launch {

class LastLines {
  public:
    // Whole lines; or a piece of a line, which the next block continues.
    void add(std::string_view block);

    // Without their newlines, oldest first; a line that has not ended is the last one. `unfinished` is what
    // came behind the last block.
    std::vector<std::string> lines(std::string_view unfinished = {}) const;

  private:
    void append(std::string_view text, bool ended);

    std::deque<std::string> lines_;
    bool open_ = false;  // the last one has not ended
};

}  // namespace ddprun::inline launch
