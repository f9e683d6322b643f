#include "launcher/output/last_lines.hpp"

#include <algorithm>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline launch {
namespace {

// Where the last kMaxLastLines lines of the block begin.
std::size_t start_of_last(std::string_view block) {
    std::size_t at = block.size();
    for (std::size_t count = 0; count <= kMaxLastLines && at > 0; ++count) {
        const auto newline = block.rfind('\n', at - 1);
        if (newline == std::string_view::npos) return 0;
        at = newline;
    }
    return at == 0 ? 0 : at + 1;
}

std::string_view without_return(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

}  // namespace

void LastLines::add(std::string_view block) {
    const std::size_t start = start_of_last(block);
    if (start > 0) {
        lines_.clear();
        open_ = false;
        block.remove_prefix(start);
    }
    while (!block.empty()) {
        const auto newline = block.find('\n');
        const bool ended = newline != std::string_view::npos;
        append(ended ? without_return(block.substr(0, newline)) : block, ended);
        block.remove_prefix(ended ? newline + 1 : block.size());
    }
}

std::vector<std::string> LastLines::lines(std::string_view unfinished) const {
    if (unfinished.empty()) return {lines_.begin(), lines_.end()};
    LastLines with_rest = *this;
    with_rest.append(unfinished, false);
    return with_rest.lines();
}

void LastLines::append(std::string_view text, bool ended) {
    if (!open_) {
        lines_.emplace_back();
        if (lines_.size() > kMaxLastLines) lines_.pop_front();
    }
    std::string& line = lines_.back();
    line += text.substr(0, kMaxLastLineText - std::min(line.size(), kMaxLastLineText));
    open_ = !ended;
}

}  // namespace ddprun::inline launch
