#include "launcher/output/output_route.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/wall_clock.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// Composed text is written before it grows beyond this.
constexpr std::size_t kComposed = 64 * 1024;

std::string rendered(const LinePrefix& prefix) {
    if (!prefix.uses_time()) return prefix.render({});
    const std::int64_t now = unix_time_now_ms();
    return prefix.render(wall_clock_text(now, local_utc_offset(now)));
}

}  // namespace

void OutputConsole::show(int stream, std::string_view prefix, std::string_view block) {
    if (writer.buffer().empty() && block.size() > kComposed / 4 && text.takes_as_is(stream, prefix)) {
        text.wrote_as_is(stream, block);
        return writer.write(block);
    }
    text.add(writer.buffer(), stream, prefix, block);
    if (writer.buffer().size() > kComposed) writer.flush();
}

OutputRoute::OutputRoute(OutputRouteParts parts) : parts_(std::move(parts)) {}

void OutputRoute::take(std::string_view bytes) {
    splitter_.push(bytes, [this](std::string_view block) { pass_on(block); });
    const bool somewhere = parts_.file != nullptr || parts_.console != nullptr;
    unseen_ = somewhere && !splitter_.unfinished().empty();
}

void OutputRoute::end() {
    const std::string rest = splitter_.take_rest();
    if (!rest.empty()) pass_on(rest);
    unseen_ = false;
}

void OutputRoute::close_files() {
    parts_.file.reset();
    parts_.filtered.reset();
}

void OutputRoute::show_unfinished() {
    unseen_ = false;
    const std::string_view text = splitter_.unfinished();
    if (parts_.file) parts_.file->show_unfinished(text);
    OutputConsole* console = parts_.console;
    if (console == nullptr) return;
    if (!console->writer.is_terminal()) {
        // It may be in the midst of a line that comes at this moment; and every second look is enough for who
        // cannot redraw one.
        unseen_ = waits_ = !waits_;
        return waits_ ? void() : show_begun(text);
    }
    console->text.pass(console->writer.buffer(), parts_.number, rendered(parts_.prefix), text,
                       console->writer.columns() - 1);
}

// A pipe is given what has come of the line since; a line that began anew, or whose beginning another
// stream's line has cut off, is given as a whole.
void OutputRoute::show_begun(std::string_view line) {
    if (line == shown_) return;
    const bool goes_on = parts_.console->text.is_open(parts_.number);
    const bool is_same = goes_on && line.starts_with(shown_);
    std::string text(is_same ? line.substr(shown_.size()) : line);
    if (goes_on && !is_same && !shown_.empty()) text.insert(0, "\r" + rendered(parts_.prefix));
    shown_ = line.ends_with('\n') ? "" : line;
    parts_.console->show(parts_.number, rendered(parts_.prefix), text);
}

void OutputRoute::replay(OutputConsole& console) const {
    const std::string prefix = rendered(parts_.prefix);
    for (const std::string& line : last_lines()) {
        console.text.add(console.writer.buffer(), parts_.number, prefix, line + "\n");
    }
}

void OutputRoute::pass_on(std::string_view block) {
    if (parts_.file) parts_.file->write(block);
    if (parts_.filtered) filter(block);
    if (parts_.keeps_last_lines) last_lines_.add(block);
    if (parts_.raised != nullptr && last_lines_.raised().count() > 0)
        parts_.raised->take(parts_.rank, last_lines_.raised(), std::chrono::steady_clock::now());
    if (parts_.kept != nullptr) parts_.kept->take(parts_.rank, parts_.stream, block, unix_time_now_ms());
    if (parts_.on_line) tell_lines(block);
    if (parts_.console == nullptr) return;
    waits_ = false;
    if (!shown_.empty()) {
        const auto line = block.substr(0, std::min(block.find('\n'), block.size() - 1) + 1);
        show_begun(line);
        shown_.clear();
        block.remove_prefix(line.size());
    }
    parts_.console->show(parts_.number, rendered(parts_.prefix), block);
}

// A block without a newline at its end is the beginning or more of a line too long to be held, or the last
// line of the stream.
void OutputRoute::tell_lines(std::string_view block) {
    while (!block.empty()) {
        const auto newline = block.find('\n');
        const bool has_ended = newline != std::string_view::npos;
        std::string_view line = block.substr(0, newline);
        block.remove_prefix(has_ended ? newline + 1 : block.size());
        if (std::exchange(is_line_told_, !has_ended)) continue;
        if (has_ended && line.ends_with('\r')) line.remove_suffix(1);
        parts_.on_line(line.substr(0, LineSplitter::kMaxLine));
    }
}

void OutputRoute::filter(std::string_view block) {
    filtered_.clear();
    std::string header;
    while (!block.empty()) {
        const auto size = std::min(block.find('\n'), block.size() - 1) + 1;
        const auto line = block.substr(0, size);
        block.remove_prefix(size);
        if (!matches(line)) continue;
        if (header.empty()) header = rendered(parts_.header);
        filtered_ += header;
        filtered_ += line;
        if (line.back() != '\n') filtered_ += '\n';
    }
    if (!filtered_.empty()) parts_.filtered->write(filtered_);
}

bool OutputRoute::matches(std::string_view line) const {
    return std::any_of(parts_.filters.begin(), parts_.filters.end(), [line](const std::string& filter) {
        return line.find(filter) != std::string_view::npos;
    });
}

}  // namespace launch
}  // namespace ddprun
