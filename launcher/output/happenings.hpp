// Happenings: the last events of a job on this node, for clients that ask a running launcher. Pure. A
// position counts the events since the launcher began.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/output/kept_output.hpp"

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
            ++end_;
        }
        while (lines_.size() > kMost || bytes_ > kMostBytes) {
            bytes_ -= lines_.front().size();
            gone_ += lines_.front().size() + 1;
            lines_.pop_front();
        }
    }

    std::uint64_t end() const { return end_; }

    // Returns the lines that are kept from position `from` on, the oldest first, each with its newline: one
    // at least, if there is one, and no further one when there are `most` bytes.
    KeptPiece read(std::uint64_t from, std::size_t most) const {
        KeptPiece piece{.next = std::max(from, end_ - lines_.size()), .is_all = true, .blocks = {}};
        std::string text;
        std::uint64_t at = gone_;
        const std::uint64_t first = lines_.size() - (end_ - std::min(piece.next, end_));
        for (std::uint64_t i = 0; i < first; ++i) at += lines_[i].size() + 1;
        for (; piece.next < end_ && text.size() < most; ++piece.next)
            text += lines_[lines_.size() - (end_ - piece.next)] + "\n";
        piece.is_all = piece.next >= end_;
        if (!text.empty())
            piece.blocks.push_back({.rank = KeptBlock::kNoRank,
                                    .stream = std::string(KeptBlock::kEvents),
                                    .unix_ms = 0,
                                    .text = std::move(text),
                                    .at = at});
        return piece;
    }

  private:
    std::deque<std::string> lines_;
    std::size_t bytes_ = 0;
    std::uint64_t gone_ = 0;  // bytes of those that are not kept any more, with their newlines
    std::uint64_t end_ = 0;
};

}  // namespace launch
}  // namespace ddprun
