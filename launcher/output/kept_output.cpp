#include "launcher/output/kept_output.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace ddprun {
inline namespace launch {

void KeptOutput::take(int rank, OutputStream stream, std::string_view lines, std::int64_t unix_ms) {
    OfRank& kept = ranks_[rank];
    Block* last = kept.blocks.empty() ? nullptr : &kept.blocks.back();
    const bool joins = last != nullptr && last->at + last->text.size() == end_ && last->stream == stream &&
                       last->unix_ms == unix_ms && last->text.size() + lines.size() <= kMostJoined;
    if (joins) {
        last->text += lines;
    } else {
        kept.blocks.push_back({end_, stream, unix_ms, std::string(lines), kept.end});
        kept.bytes += kBlockCost;
    }
    end_ += lines.size();
    kept.end += lines.size();
    kept.bytes += lines.size();
    while (kept.bytes > kMostOfRank && kept.blocks.size() > 1) {
        kept.bytes -= kept.blocks.front().text.size() + kBlockCost;
        kept.blocks.pop_front();
    }
}

KeptPiece KeptOutput::read(std::optional<int> rank, std::uint64_t from, std::size_t most) const {
    // The ranks' blocks are in order by themselves; the next one of all stands at the queue's top.
    using Next = std::pair<std::uint64_t, std::map<int, OfRank>::const_iterator>;
    const auto is_later = [](const Next& a, const Next& b) { return a.first > b.first; };
    std::priority_queue<Next, std::vector<Next>, decltype(is_later)> ahead(is_later);
    std::map<int, std::deque<Block>::const_iterator> places;
    for (auto entry = ranks_.begin(); entry != ranks_.end(); ++entry) {
        if (rank && *rank != entry->first) continue;
        const auto& blocks = entry->second.blocks;
        const auto place = std::partition_point(blocks.begin(), blocks.end(), [from](const Block& block) {
            return block.at + block.text.size() <= from;
        });
        if (place == blocks.end()) continue;
        places[entry->first] = place;
        ahead.emplace(place->at, entry);
    }
    KeptPiece piece{.next = std::max(from, end_), .is_all = true, .blocks = {}};
    std::size_t bytes = 0;
    while (!ahead.empty()) {
        const auto [at, entry] = ahead.top();
        if (bytes >= most) {
            piece.next = at;
            piece.is_all = false;
            break;
        }
        ahead.pop();
        auto& place = places[entry->first];
        const std::size_t skipped = from > at ? from - at : 0;
        piece.blocks.push_back({entry->first, std::string(stream_name(place->stream)), place->unix_ms,
                                place->text.substr(skipped), place->at_of_rank + skipped});
        bytes += piece.blocks.back().text.size() + kBlockCost;
        if (++place != entry->second.blocks.end()) ahead.emplace(place->at, entry);
    }
    return piece;
}

}  // namespace launch
}  // namespace ddprun
