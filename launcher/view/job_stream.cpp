#include "launcher/view/job_stream.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/view/view_json.hpp"

namespace ddprun {
inline namespace launch {

void JobStream::read(const std::vector<int>& nodes) {
    std::erase_if(sources_, [&nodes](const auto& entry) {
        return std::find(nodes.begin(), nodes.end(), entry.first) == nodes.end();
    });
    for (const int node : nodes) {
        const auto [place, is_new] = sources_.try_emplace(node);
        if (is_new) place->second.number = ++last_number_;
    }
    ask_on();
    look_whether_caught_up();
    if (!queue_.empty()) wake();
}

void JobStream::tell(const StreamLine& line) {
    queue_ += to_json(line) + "\n";
    wake();
}

void JobStream::end(const StreamLine& last) {
    if (is_over_) return;
    is_over_ = true;
    tell(last);
}

void JobStream::close() {
    is_over_ = true;
    queue_.clear();
    sources_.clear();
    wake();
}

std::string JobStream::take() {
    std::string taken = std::exchange(queue_, {});
    ask_on();
    return taken;
}

// What is called wakes the reader, which takes and lets ask on: so this comes last wherever it is called.
void JobStream::wake() {
    if (more_) std::exchange(more_, nullptr)();
}

void JobStream::ask_on() {
    if (is_over_ || !queue_.empty()) return;
    const auto catches_up = [](const auto& entry) {
        return entry.second.doing == Doing::asked && !entry.second.has_caught_up;
    };
    auto most = kMostAsked - std::count_if(sources_.begin(), sources_.end(), catches_up);
    std::vector<int> idle;
    for (const auto& [node, source] : sources_) {
        const bool is_wanted = source.has_caught_up ? terms_.follows : most > 0;
        if (source.doing != Doing::nothing || !is_wanted) continue;
        if (!source.has_caught_up) --most;
        idle.push_back(node);
    }
    // An answer may come at once, and end the stream.
    for (const int node : idle) {
        const auto place = sources_.find(node);
        if (place != sources_.end() && place->second.doing == Doing::nothing) ask(node, place->second);
    }
}

void JobStream::ask(int node, Source& source) {
    source.doing = Doing::asked;
    const KeptQuestion question{
        .rank = terms_.rank, .from = source.next, .waits = source.has_caught_up, .launcher = source.launcher};
    ask_(node, question, [weak = weak_from_this(), node, number = source.number](HeardPiece heard) {
        if (const auto stream = weak.lock()) stream->hear(node, number, std::move(heard));
    });
}

bool JobStream::may_tell(const NodeAnswer& from, const KeptBlock& block) const {
    if (terms_.kind == kEventsQuestion)
        return block.rank == KeptBlock::kNoRank && block.stream == KeptBlock::kEvents;
    return block.rank >= from.first_rank && block.rank - from.first_rank < from.ranks &&
           (!terms_.rank || block.rank == *terms_.rank) && block.stream != KeptBlock::kEvents &&
           block.stream != KeptBlock::kGap;
}

void JobStream::hear(int node, std::uint64_t number, HeardPiece heard) {
    const auto place = sources_.find(node);
    if (is_over_ || place == sources_.end() || place->second.number != number) return;
    Source& source = place->second;
    source.doing = Doing::nothing;
    const NodeAnswer& from = heard.from;
    std::optional<KeptPiece>& piece = heard.piece;
    if (piece && !heard.is_believed)
        std::erase_if(piece->blocks, [&](const KeptBlock& block) { return !may_tell(from, block); });
    if (!from.trouble.empty() || !piece) {
        take_trouble(source, from, !from.trouble.empty() ? from.trouble : "its answer is not understood");
        pause(node, kTroublePause);
    } else {
        if (source.has_caught_up && piece->blocks.empty()) pause(node, kEmptyPause);
        take_piece(source, from, *std::move(piece));
    }
    look_whether_caught_up();
    if (queue_.empty() && !is_over_) return ask_on();
    wake();
}

void JobStream::take_trouble(Source& source, const NodeAnswer& from, const std::string& why) {
    source.has_caught_up = true;
    if (std::exchange(source.trouble, why) == why) return;
    // One that says nothing does not say its name.
    const std::string& host = from.host.empty() ? source.host : from.host;
    queue_ += to_json(StreamLine{.node = from.node, .host = host, .trouble = why}) + "\n";
}

// What was dropped before the client came is no gap: until the client has all that there was, the first block
// of a rank begins the count.
std::vector<KeptBlock> JobStream::with_gaps(Source& source, const KeptPiece& piece) {
    const bool has_all_before = source.has_caught_up && !source.launcher.empty();
    if (source.launcher != piece.launcher) source.next_of.clear();
    std::vector<KeptBlock> told;
    for (const KeptBlock& block : piece.blocks) {
        std::uint64_t& next =
            source.next_of.try_emplace(block.rank, has_all_before ? 0 : block.at).first->second;
        if (block.at > next)
            told.push_back({.rank = block.rank,
                            .stream = std::string(KeptBlock::kGap),
                            .unix_ms = block.unix_ms,
                            .text = fmt::format("[... {} bytes were not kept ...]\n", block.at - next)});
        next = block.at + block.text.size();
        told.push_back(block);
    }
    return told;
}

void JobStream::take_piece(Source& source, const NodeAnswer& from, KeptPiece piece) {
    if (queue_.size() > kMostQueued) return;
    source.trouble.clear();
    std::vector<KeptBlock> blocks = with_gaps(source, piece);
    source.next = piece.next;
    source.launcher = piece.launcher;
    source.host = from.host;
    for (const KeptBlock& block : piece.blocks) source.told += block.text.size();
    // A node that says more than it keeps has begun with what is new.
    const std::size_t most = KeptOutput::kMostOfRank * static_cast<std::size_t>(std::max(from.ranks, 1));
    if (piece.is_all || source.told > most) source.has_caught_up = true;
    StreamLine line{.node = from.node, .host = from.host};
    if (std::exchange(source.log_folder, piece.log_folder) != piece.log_folder)
        line.log_folder = std::move(piece.log_folder);
    line.blocks = std::move(blocks);
    if (!line.blocks.empty() || !line.log_folder.empty()) queue_ += to_json(line) + "\n";
}

void JobStream::pause(int node, std::chrono::milliseconds length) {
    if (!terms_.follows) return;
    Source& source = sources_.at(node);
    source.doing = Doing::pausing;
    later_(length, [weak = weak_from_this(), node, number = source.number] {
        const auto stream = weak.lock();
        const auto place = stream ? stream->sources_.find(node) : decltype(stream->sources_.end())();
        if (!stream || place == stream->sources_.end() || place->second.number != number) return;
        place->second.doing = Doing::nothing;
        stream->ask_on();
    });
}

void JobStream::look_whether_caught_up() {
    if (has_caught_up_ || is_over_) return;
    has_caught_up_ = std::all_of(sources_.begin(), sources_.end(),
                                 [](const auto& entry) { return entry.second.has_caught_up; });
    if (!has_caught_up_) return;
    queue_ += to_json(StreamLine{.has_caught_up = true}) + "\n";
    is_over_ = !terms_.follows;
}

}  // namespace launch
}  // namespace ddprun
