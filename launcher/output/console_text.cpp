#include "launcher/output/console_text.hpp"

#include <algorithm>

namespace ddprun::inline launch {
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

// How many bytes the escape sequence at the start of `text` has; 0 if there is none. CSI sequences end with a
// letter or one of @[\]^_`{|}~, others with their second byte.
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
    // Behind a piece of the same line nothing can be erased, so nothing passing is shown.
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

}  // namespace ddprun::inline launch
