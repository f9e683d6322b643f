#include "launcher/output/output_lines.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "launcher/harmless_text.hpp"

namespace ddprun {
inline namespace launch {

std::string_view LineSplitter::unfinished() const { return last_state(held_); }

std::string LineSplitter::take_rest() {
    std::string rest(unfinished());
    held_.clear();
    return rest;
}

// It uses memrchr and memchr because they look at many bytes at once and string_view's rfind does not.
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
    // It is not known yet whether a newline comes behind it.
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

namespace {

std::string_view without_return(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

}  // namespace

void LastLines::add(std::string_view block) {
    while (!block.empty()) {
        const auto newline = block.find('\n');
        const bool ended = newline != std::string_view::npos;
        append(ended ? without_return(block.substr(0, newline)) : block, ended);
        block.remove_prefix(ended ? newline + 1 : block.size());
    }
}

std::vector<std::string> LastLines::lines(std::string_view unfinished) const {
    LastLines all = *this;
    if (!unfinished.empty()) all.append(unfinished, false);
    return last_words(std::move(all.reason_), {all.lines_.begin(), all.lines_.end()}, kMaxLastLines);
}

void LastLines::append(std::string_view text, bool ended) {
    if (!open_) {
        lines_.emplace_back();
        if (lines_.size() > kMaxLastLines) {
            reason_.note(lines_.front());
            lines_.pop_front();
        }
    }
    std::string& line = lines_.back();
    line += text.substr(0, kMaxLastLineText - std::min(line.size(), kMaxLastLineText));
    open_ = !ended;
    if (ended) raised_.note(line);
}

namespace {

constexpr std::string_view kErasePassingLine = "\r\x1b[K";
constexpr std::string_view kPlainColours = "\x1b[0m";

void append_prefixed(std::string& out, std::string_view prefix, std::string_view block) {
    if (prefix.empty()) {
        out += block;
        return;
    }
    while (!block.empty()) {
        const std::size_t size = std::min(block.find('\n'), block.size() - 1) + 1;
        out.append(prefix);
        out.append(block.substr(0, size));
        block.remove_prefix(size);
    }
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Counts the bytes of the escape sequence at the start of `text` has; 0 if there is none. CSI sequences end
// with a letter or one of @[\]^_`{|}~, others with their second byte.
std::size_t escape_size(std::string_view text) {
    if (text.empty() || text[0] != '\x1b') return 0;
    if (text.size() < 2 || text[1] != '[') return std::min<std::size_t>(text.size(), 2);
    std::size_t at = 2;
    while (at < text.size() && (text[at] < 0x40 || text[at] > 0x7e)) ++at;
    return std::min(at + 1, text.size());
}

}  // namespace

bool ConsoleText::takes_as_is(int stream, std::string_view prefix) const {
    return prefix.empty() && !passing_ && (open_stream_ < 0 || open_stream_ == stream);
}

void ConsoleText::wrote_as_is(int stream, std::string_view block) {
    if (!block.empty()) open_stream_ = block.back() == '\n' ? -1 : stream;
}

void ConsoleText::add(std::string& out, int stream, std::string_view prefix, std::string_view block) {
    if (block.empty()) return;
    make_room(out, stream);
    if (open_stream_ == stream) {
        const auto rest = std::min(block.find('\n'), block.size() - 1) + 1;
        out += block.substr(0, rest);
        append_prefixed(out, prefix, block.substr(rest));
    } else {
        append_prefixed(out, prefix, block);
    }
    open_stream_ = block.back() == '\n' ? -1 : stream;
}

void ConsoleText::pass(std::string& out, int stream, std::string_view prefix, std::string_view text,
                       std::size_t columns) {
    // Nothing can be erased behind a piece of the same line, so no passing line is shown.
    if (open_stream_ == stream) return;
    make_room(out, stream);
    out += fit_to_columns(std::string(prefix) + std::string(text), columns);
    passing_ = true;
}

void ConsoleText::erase_passing(std::string& out) {
    if (passing_) make_room(out, -1);
}

void ConsoleText::end_line(std::string& out) { make_room(out, -1); }

void ConsoleText::make_room(std::string& out, int stream) {
    if (passing_) {
        out += kErasePassingLine;
        passing_ = false;
    } else if (open_stream_ >= 0 && open_stream_ != stream) {
        out += '\n';
        open_stream_ = -1;
    }
}

std::string fit_to_columns(std::string_view line, std::size_t columns) {
    std::string fitting;
    bool escaped = false;
    std::size_t used = 0;
    while (!line.empty()) {
        std::size_t size = escape_size(line);
        if (size != 0) {
            escaped = true;
            fitting += line.substr(0, size);
        } else {
            size = 1;
            while (size < line.size() && continues_character(line[size])) ++size;
            if (used < columns) fitting += line.substr(0, size);
            ++used;
        }
        line.remove_prefix(size);
    }
    if (escaped) fitting += kPlainColours;
    return fitting;
}

}  // namespace launch
}  // namespace ddprun
