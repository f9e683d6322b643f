// KeptOutput: the last lines that the workers of this node have printed, for clients that ask a running
// launcher. Pure: bytes and times come in.
//
// Owned by PumpLoop and used by its thread. Lines are kept as they came, whole and in blocks; a position
// counts the bytes of all ranks since the launcher began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/output_plan.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

// KeptBlock: lines of one stream that came together.
struct KeptBlock {
    static constexpr int kNoRank = -1;
    static constexpr std::string_view kEvents = "events";
    static constexpr std::string_view kGap = "gap";

    int rank = 0;  // kNoRank: of the launcher
    std::string
        stream;  // stdout or stderr; kEvents: lines of --events; kGap: a line that says what is missing
    std::int64_t unix_ms = 0;
    std::string text;
    std::uint64_t at = 0;  // how many bytes of this rank came before
    bool operator==(const KeptBlock&) const = default;
};
BOOST_DESCRIBE_STRUCT(KeptBlock, (), (rank, stream, unix_ms, text, at))

// KeptPiece: what is kept from a position on, or the beginning of that.
struct KeptPiece {
    std::uint64_t next = 0;         // the position to go on from
    bool is_all = true;             // nothing is kept behind `next`
    std::vector<KeptBlock> blocks;  // in the order in which they came
    std::string launcher = {};      // by which launcher's count `next` is
    std::string log_folder = {};    // what goes to files is below it; empty: nothing does
    bool operator==(const KeptPiece&) const = default;
};
BOOST_DESCRIBE_STRUCT(KeptPiece, (), (next, is_all, blocks, launcher, log_folder))

// KeptQuestion: what a client wants to read.
struct KeptQuestion {
    std::optional<int> rank;    // none: all ranks of this node
    std::uint64_t from = 0;     // position
    bool waits = false;         // a moment, if there is nothing yet
    std::string launcher = {};  // KeptPiece's; by another one's count all that is kept is meant
};

class KeptOutput {
  public:
    // kMostOfRank: bytes that are kept of one rank, and kBlockCost what a block counts beside its text.
    static constexpr std::size_t kMostOfRank = std::size_t{1} << 20;
    static constexpr std::size_t kBlockCost = 64;
    // kMostJoined: a block that comes right behind a smaller one of its stream in the same millisecond
    // becomes a part of it.
    static constexpr std::size_t kMostJoined = 4096;

    void take(int rank, OutputStream stream, std::string_view lines, std::int64_t unix_ms);

    std::uint64_t end() const { return end_; }

    // Returns how many bytes of this rank have come.
    std::uint64_t end_of(int rank) const {
        const auto kept = ranks_.find(rank);
        return kept == ranks_.end() ? 0 : kept->second.end;
    }

    // Returns what is kept of `rank`, or of all, from position `from` on: a block at least, if there is one,
    // and no further one when they cost `most` bytes.
    KeptPiece read(std::optional<int> rank, std::uint64_t from, std::size_t most) const;

  private:
    struct Block {
        std::uint64_t at = 0;
        OutputStream stream = OutputStream::out;
        std::int64_t unix_ms = 0;
        std::string text;
        std::uint64_t at_of_rank = 0;
    };
    struct OfRank {
        std::deque<Block> blocks;
        std::size_t bytes = 0;
        std::uint64_t end = 0;
    };
    std::map<int, OfRank> ranks_;
    std::uint64_t end_ = 0;
};

}  // namespace launch
}  // namespace ddprun
