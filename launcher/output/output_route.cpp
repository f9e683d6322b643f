#include "launcher/output/output_route.hpp"

#include <algorithm>

#include "launcher/wall_clock.hpp"

namespace ddprun::inline launch {
namespace {

// Composed text is written before it grows beyond this.
constexpr std::size_t kComposed = 64 * 1024;

std::string rendered(const LinePrefix& prefix) {
    if (!prefix.uses_time()) return prefix.render({});
    const std::int64_t now = unix_time_now_ms();
    return prefix.render(wall_clock_text(now, local_utc_offset(now)));
}

void show(OutputConsole& console, int number, const std::string& prefix, std::string_view block) {
    if (console.writer.buffer().empty() && block.size() > kComposed / 4 &&
        console.text.takes_as_is(number, prefix)) {
        console.text.wrote_as_is(number, block);
        console.writer.write(block);
        return;
    }
    console.text.add(console.writer.buffer(), number, prefix, block);
    if (console.writer.buffer().size() > kComposed) console.writer.flush();
}

}  // namespace

OutputRoute::OutputRoute(OutputRouteParts parts) : parts_(std::move(parts)) {}

void OutputRoute::take(std::string_view bytes) {
    splitter_.push(bytes, [this](std::string_view block) { pass_on(block); });
    const bool somewhere =
        parts_.file != nullptr || (parts_.console != nullptr && parts_.console->writer.is_terminal());
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
    if (console == nullptr || !console->writer.is_terminal()) return;
    console->text.pass(console->writer.buffer(), parts_.number, rendered(parts_.prefix), text,
                       console->writer.columns() - 1);
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
    if (parts_.console != nullptr) show(*parts_.console, parts_.number, rendered(parts_.prefix), block);
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

}  // namespace ddprun::inline launch
