#include "rendezvous/job/failure_reason.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace job {
namespace {

constexpr std::string_view kGapBegin = "... ";
constexpr std::string_view kGapEnd = " lines left out ...";

std::optional<std::size_t> lines_left_out(std::string_view line) {
    if (!line.starts_with(kGapBegin) || !line.ends_with(kGapEnd)) return std::nullopt;
    line.remove_prefix(kGapBegin.size());
    line.remove_suffix(std::min(kGapEnd.size(), line.size()));
    return whole_number<std::size_t>(line, 0, 1'000'000'000);
}

bool begins_with_any(std::string_view text, const auto& words) {
    return std::any_of(std::begin(words), std::end(words),
                       [text](std::string_view word) { return text.starts_with(word); });
}

// What stands in the line that says why a program ends, whatever it was written in. Where a number follows it
// is a measurement: "validation error: 0.03".
constexpr std::string_view kFailureWords[] = {
    "rror: ",
    "ERROR:",
    "ERROR ",
    "ERROR]",
    "CRITICAL",
    "Caught signal",
    " Invalid ",
    "rror)",
    "xception: ",
    "xception in thread",
    "anic: ",
    "anicked at ",
    "terminate called",
    "what():",
    "atal ",
    "FATAL",
    "heck failed",
    "ssertion ",
    "Sanitizer: ",
    "aused by: ",
    "nhandled ",
    "ncaught ",
    "free(): ",
    "malloc(): ",
    "double free",
    "*** stack sm",
    "*** buffer over",
    "received signal",
    "CUDA error",
    "MPI_ABORT",
    "ailed: ",
    "severe (",
    "Error in ",
    "Error using ",
};
// A stack follows: what says why stands before it. Not so with Python, where the stack comes first.
constexpr std::string_view kStackHeads[] = {"stack trace",     "Stack trace", "stacktrace",
                                            "Stacktrace",      "backtrace",   "Backtrace",
                                            "stack backtrace", "CallStack",   "traceback:"};
constexpr std::string_view kFrameBegins[] = {
    "frame #",        "at ",         "from ",     "File ",           "Thread 0x",          "@ ", "goroutine ",
    "Current thread", "created by ", "Traceback", "During handling", "The above exception"};

bool looks_like_failure(std::string_view line) {
    for (const std::string_view word : kFailureWords) {
        const auto at = line.find(word);
        if (at == std::string_view::npos) continue;
        const auto rest = line.substr(at + word.size());
        if (!word.ends_with(": ") || (!rest.empty() && !is_decimal(rest[0]))) return true;
    }
    return line.ends_with("Error") || line.ends_with("Exception");
}

bool is_frame(std::string_view line) {
    if (line.starts_with(' ') || line.starts_with('\t'))
        return line.find("what():") == std::string_view::npos;
    return begins_with_any(line, kFrameBegins) || (line.size() > 1 && line[0] == '#' && is_decimal(line[1]));
}

// So many lines that are neither may stand between two that look like the same failure, and so many end the
// search.
constexpr std::size_t kStrangersInside = 4;
constexpr std::size_t kStrangersAfter = 200;
// So many lines in a row that begin with a tab are frames of what the line before them says.
constexpr std::size_t kFramesByTabs = 3;
// Rust and others say why in the line behind.
constexpr std::size_t kFollowers = 2;

}  // namespace

std::string_view without_rank(std::string_view line) {
    if (!line.starts_with("[rank")) return line;
    line.remove_prefix(std::min(line.find("]:") + 2, line.size()));
    if (line.starts_with(' ')) line.remove_prefix(1);
    return line;
}

void FailureReason::begin(const std::string& line) {
    lines_ = {line};
    left_out_ = 0;
    strangers_ = 0;
    ++blocks_;
}

void FailureReason::note(const std::string& line) {
    const std::string_view text = without_rank(line);
    const auto gap = lines_left_out(line);
    left_out_ += gap.value_or(1);
    const bool is_open = !lines_.empty() && strangers_ <= kStrangersInside;
    const bool is_blank = text.find_first_not_of(" \t\r") == std::string_view::npos;
    const auto follower = std::exchange(followers_, 0);
    tabs_ = text.starts_with('\t') ? tabs_ + 1 : 0;
    if (tabs_ == kFramesByTabs && !is_open && !stranger_.empty()) {
        begin(std::exchange(stranger_, {}));
        left_out_ = kFramesByTabs;
    }
    if (is_blank || is_frame(text)) return;
    if (looks_like_failure(text)) {
        followers_ = kFollowers;
        strangers_ = 0;
        if (!is_open) return begin(line);
        --left_out_;
        if (lines_.size() < kMaxLines) return lines_.push_back(line);
        ++left_out_;
        lines_.back() = line;
        return;
    }
    const bool has_stack =
        gap || std::any_of(std::begin(kStackHeads), std::end(kStackHeads), [text](std::string_view head) {
            return text.find(head) != std::string_view::npos;
        });
    if (has_stack && !is_open && !stranger_.empty()) {
        begin(std::exchange(stranger_, {}));
        left_out_ = gap.value_or(1);
    }
    if (has_stack || text.ends_with(')')) return;
    if (follower > 0 && lines_.size() + 1 < kMaxLines) {
        followers_ = follower - 1;
        --left_out_;
        return lines_.push_back(line);
    }
    stranger_ = line;
    if (++strangers_ > kStrangersAfter) lines_.clear();
}

std::vector<std::string> last_words(FailureReason before, const std::vector<std::string>& lines,
                                    std::size_t room) {
    FailureReason last = before;
    for (const std::string& line : lines) last.note(line);
    auto from = lines.begin();
    std::size_t passed = 0;
    for (;; ++from) {
        const bool has_reason = !before.lines().empty() && before.blocks() == last.blocks();
        std::vector<std::string> shown = has_reason ? before.lines() : std::vector<std::string>();
        const std::size_t left_out = has_reason ? before.left_out() : passed;
        if (left_out > 0) shown.push_back(fmt::format("{}{}{}", kGapBegin, left_out, kGapEnd));
        if (shown.size() + static_cast<std::size_t>(lines.end() - from) <= room || from == lines.end()) {
            shown.insert(shown.end(), from, lines.end());
            return shown;
        }
        before.note(*from);
        passed += lines_left_out(*from).value_or(1);
    }
}

}  // namespace job
}  // namespace ddprun
