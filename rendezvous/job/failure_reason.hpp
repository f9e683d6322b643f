// FailureReason finds the reason of a failure: the first lines of the last block that looks like one. Java,
// Go, Rust, PyTorch's watchdog and sanitizers print the reason above frames, a memory map or a legend. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace job {

class FailureReason {
  public:
    static constexpr std::size_t kMaxLines = 4;

    void note(const std::string& line);

    // Returns the block's first lines and the last one that looks like a failure; nothing where no block was
    // seen.
    const std::vector<std::string>& lines() const { return lines_; }
    // Returns how many of the lines since the block began are not among them.
    std::size_t left_out() const { return left_out_; }
    // Returns how many blocks have begun.
    std::size_t blocks() const { return blocks_; }

  private:
    void begin(const std::string& line);

    std::vector<std::string> lines_;
    std::size_t left_out_ = 0;
    std::size_t blocks_ = 0;
    std::size_t strangers_ = 0;  // lines since the last that looked like a failure which are no frames either
    std::size_t followers_ = 0;  // this many lines right behind it may still belong to what it says
    std::string stranger_;       // the last one
    std::size_t tabs_ = 0;       // how many lines in a row begin with a tab
};

// Returns at most `room` (at least 8) of a program's last lines. Where the reason stands above the lines that
// fit, it comes first, and the next line says how many are left out. `before` has seen the lines in front of
// `lines`.
std::vector<std::string> last_words(FailureReason before, const std::vector<std::string>& lines,
                                    std::size_t room);

// Returns the line without the rank that PyTorch puts before it: `[rank2]: `.
std::string_view without_rank(std::string_view line);

// kLastWords: how many of a worker's last lines count as its last words, besides the reason.
inline constexpr std::size_t kLastWords = 3;

}  // namespace job
}  // namespace ddprun
