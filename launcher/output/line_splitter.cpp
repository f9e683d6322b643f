#include "launcher/output/line_splitter.hpp"

#include <cstring>

#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {

std::string_view LineSplitter::unfinished() const { return last_state(held_); }

std::string LineSplitter::take_rest() {
    std::string rest(unfinished());
    held_.clear();
    return rest;
}

// memrchr and memchr, because they look at many bytes at once and string_view's rfind does not.
std::size_t LineSplitter::whole_lines(std::string_view bytes) {
    const void* last = bytes.empty() ? nullptr : ::memrchr(bytes.data(), '\n', bytes.size());
    return last == nullptr ? 0 : static_cast<std::size_t>(static_cast<const char*>(last) - bytes.data()) + 1;
}

bool LineSplitter::has_update(std::string_view block) {
    return std::memchr(block.data(), '\r', block.size()) != nullptr;
}

// A bar that never ends its line must not grow without bound, so states that were overwritten go at once.
void LineSplitter::hold(std::string_view bytes) {
    held_ += bytes;
    if (held_.empty() || !has_update(held_)) return;
    const std::string_view state = last_state(held_);
    const bool ends_open = held_.back() == '\r';
    std::string kept(state);
    // Whether a newline comes behind it is not known yet.
    if (ends_open) kept += '\r';
    held_ = std::move(kept);
}

void LineSplitter::collapse(std::string_view block) {
    collapsed_.clear();
    while (!block.empty()) {
        const auto newline = block.find('\n');
        const auto line = block.substr(0, newline);
        collapsed_ += last_state(line);
        if (!line.empty() && line.back() == '\r') collapsed_ += '\r';
        collapsed_ += '\n';
        block.remove_prefix(newline + 1);
    }
}

}  // namespace ddprun::inline launch
