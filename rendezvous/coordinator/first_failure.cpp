#include "rendezvous/coordinator/first_failure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <sstream>
#include <utility>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace job {

namespace {

std::optional<Accusation> accusation_in_file(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (auto found = find_accusation(line)) return found;
    }
    return std::nullopt;
}

void place_at(Failure& failure, const RankEnd& end) {
    failure.rank = end.rank;
    failure.local_rank = end.local_rank;
    failure.node_rank = end.node_rank;
    failure.host = end.host;
    failure.pid = end.pid;
}

// The rank has failed by itself, but its last words are not known here.
Failure own_failure(const RankEnd& end, const Failure& reporter, const Accusation& accusation) {
    Failure failure{.kind = Failure::Kind::worker_failed};
    place_at(failure, end);
    failure.exit_code = end.exit_code;
    failure.signal = end.signal;
    failure.core_dumped = end.core_dumped;
    failure.unix_time_ms = reporter.unix_time_ms;
    failure.message = fmt::format("rank {} says: {}", reporter.rank, accusation.sentence);
    return failure;
}

Failure laid_on(const RankEnd& end, const Failure& reporter, const Accusation& accusation) {
    Failure failure = reporter;
    place_at(failure, end);
    failure.witness = reporter.rank;
    failure.accusation = report_of(accusation.charge);
    failure.testimony = accusation.sentence;
    return failure;
}

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

bool is_decimal(char byte) { return byte >= '0' && byte <= '9'; }

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

// PyTorch puts the rank before each line.
std::string_view without_rank(std::string_view line) {
    if (!line.starts_with("[rank")) return line;
    line.remove_prefix(std::min(line.find("]:") + 2, line.size()));
    if (line.starts_with(' ')) line.remove_prefix(1);
    return line;
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

std::optional<Accusation> accusation_of(const Failure& failure) {
    if (failure.kind != Failure::Kind::worker_failed) return std::nullopt;
    if (failure.signal != 0 && failure.signal != SIGABRT) return std::nullopt;
    if (!failure.error_message.empty()) return accusation_in_file(failure.error_message);
    std::size_t words = 0;
    for (auto line = failure.last_lines.rbegin(); line != failure.last_lines.rend(); ++line) {
        if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
        if (auto found = find_accusation(*line)) return found;
        if (++words == kLastWords) break;
    }
    FailureReason reason;
    for (const std::string& line : failure.last_lines) reason.note(line);
    for (const std::string& line : reason.lines()) {
        if (auto found = find_accusation(line)) return found;
    }
    return std::nullopt;
}

Failure culprit_of(const Failure& first, const std::vector<const Failure*>& known, const EndOfRank& end_of) {
    const Failure* reporter = &first;
    std::set<int> blamed;
    for (;;) {
        const auto accusation = accusation_of(*reporter);
        if (!accusation || accusation->rank == reporter->rank) return *reporter;
        blamed.insert(reporter->rank);
        const int rank = accusation->rank;
        if (blamed.contains(rank)) return first;
        const auto own = std::find_if(known.begin(), known.end(),
                                      [rank](const Failure* failure) { return failure->rank == rank; });
        if (own != known.end()) {
            const auto further = accusation_of(**own);
            if (is_about_end(accusation->charge) || (further && further->rank != rank)) {
                reporter = *own;
                continue;
            }
        }
        const auto end = end_of(rank);
        if (!end) return *reporter;
        const bool failed = end->manner == RankEnd::Manner::failed;
        return failed && is_about_end(accusation->charge) ? own_failure(*end, *reporter, *accusation)
                                                          : laid_on(*end, *reporter, *accusation);
    }
}

void FirstFailure::contend(int rank) {
    if (!is_suspect(rank)) contenders_.insert(rank);
}

Failure& FirstFailure::tell(int teller, Failure failure) {
    const auto earlier = std::find_if(told_.begin(), told_.end(), [teller](const Told& told) {
        return told.teller == teller && told.failure.kind == Failure::Kind::worker_failed;
    });
    if (earlier == told_.end()) return told_.emplace_back(Told{teller, std::move(failure)}).failure;
    return earlier->failure = std::move(failure);
}

std::optional<Failure> FirstFailure::first(const EndOfRank& end_of) const {
    if (told_.empty()) return std::nullopt;
    const Failure* first = &told_.front().failure;
    if (first->kind != Failure::Kind::worker_failed) return *first;
    std::vector<const Failure*> known;
    for (const Told& told : told_) {
        if (is_before(told.failure, *first)) first = &told.failure;
        known.push_back(&told.failure);
    }
    return culprit_of(*first, known, end_of);
}

bool FirstFailure::is_before(const Failure& failure, const Failure& first) const {
    const std::size_t place = place_among_suspects(failure.rank);
    const std::size_t place_of_first = place_among_suspects(first.rank);
    if (place != place_of_first) return place < place_of_first;
    const bool was_killed = failure.signal != 0 && failure.signal != SIGABRT && failure.signal != SIGPIPE;
    return is_contender(failure.rank) && was_killed && first.signal == 0;
}

// One that is no suspect stands behind all of them.
std::size_t FirstFailure::place_among_suspects(int rank) const {
    const auto suspect = suspects_.find(rank);
    return suspect == suspects_.end() ? suspects_.size() : suspect->second;
}

namespace {

constexpr char kNumber = '#';
constexpr char kHost = '@';
// Letters a to f alone are a word of a language unless there are so many of them.
constexpr std::size_t kLongHex = 8;

bool is_hex_letter(char c) { return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_of_word(char c) { return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_sign(char c) { return c == '-' || c == '+'; }
bool joins_numbers(char c) { return is_sign(c) || c == '.' || c == ',' || c == ':' || c == '/'; }

std::string_view word_at(std::string_view text) {
    return text.substr(
        0, static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_of_word) - text.begin()));
}

// `follows`: it is joined to a number.
bool is_number(std::string_view word, bool follows) {
    const auto is_hex = [](std::string_view part) {
        return std::all_of(part.begin(), part.end(),
                           [](char c) { return is_decimal(c) || is_hex_letter(c); });
    };
    if (word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X'))
        return is_hex(word.substr(2));
    return is_hex(word) &&
           (follows || word.size() >= kLongHex || std::any_of(word.begin(), word.end(), is_decimal));
}

// It keeps what has been masked so far, and where its last number ends.
class MaskedText {
  public:
    // A sign that no word stands before is the number's own.
    void add_number() {
        if (joined_to_number()) {
            text_.resize(number_end_);
        } else {
            if (!text_.empty() && is_sign(text_.back()) &&
                (text_.size() == 1 || !is_of_name(text_.end()[-2])))
                text_.pop_back();
            text_ += kNumber;
        }
        number_end_ = text_.size();
    }
    void add(char c) { text_ += c; }
    // The digits of a word that is no number; those that it begins with may end one, as in 1.5GiB.
    void add_word(std::string_view word) {
        if (is_decimal(word.front()) && joined_to_number()) text_.resize(number_end_);
        for (const char c : word) {
            if (!is_decimal(c))
                text_ += c;
            else if (text_.empty() || text_.back() != kNumber)
                text_ += kNumber;
        }
    }
    // Nothing but marks has come since the last number, two at most, as in fe80::1.
    bool joined_to_number() const {
        constexpr std::size_t kMaxMarks = 2;
        const std::size_t marks = text_.size() - number_end_;
        return number_end_ > 0 && marks > 0 && marks <= kMaxMarks &&
               std::all_of(text_.begin() + static_cast<std::ptrdiff_t>(number_end_), text_.end(),
                           joins_numbers);
    }
    std::string take() { return std::move(text_); }

  private:
    static bool is_of_name(char c) { return is_of_word(c) || c == kNumber || c == kHost || c == '_'; }

    std::string text_;
    std::size_t number_end_ = 0;
};

// The length of the longest of `hosts` that `text` begins with; 0: none.
std::size_t host_at(std::string_view text, const std::vector<std::string>& hosts) {
    std::size_t longest = 0;
    for (const std::string& host : hosts) {
        const bool ends =
            text.size() <= host.size() || (!is_of_word(text[host.size()]) && text[host.size()] != '-');
        if (text.starts_with(host) && ends) longest = std::max(longest, host.size());
    }
    return longest;
}

// Nodes are also called by the first part of their names.
std::vector<std::string> with_short_names(std::vector<std::string> hosts) {
    const std::size_t count = hosts.size();
    for (std::size_t i = 0; i < count; ++i) hosts.push_back(hosts[i].substr(0, hosts[i].find('.')));
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    std::erase_if(hosts, [](const std::string& host) {
        return std::all_of(host.begin(), host.end(), is_decimal);  // as of 10.0.0.1; or empty
    });
    return hosts;
}

// Line by line, with a line break in front of each.
class ComparedLines {
  public:
    explicit ComparedLines(const std::vector<std::string>& hosts) : hosts_(hosts) {}

    void add(std::string_view line) {
        // Cut twice: masking is not to be paid for what is dropped, and shortens a line by what its numbers
        // had.
        const std::string next =
            masked(line.substr(0, 2 * kMaxComparedLine), hosts_).substr(0, kMaxComparedLine);
        if (next == last_ || lines_.size() > kMaxComparedText) return;
        lines_ += '\n' + next;
        last_ = next;
    }
    void add_text(std::string_view text) {
        for (const std::string_view line : split_at(text, '\n')) add(line);
    }
    std::string take() { return std::move(lines_); }

  private:
    const std::vector<std::string>& hosts_;
    std::string lines_;
    std::string last_;
};

}  // namespace

std::string masked(std::string_view text, const std::vector<std::string>& hosts) {
    MaskedText result;
    while (!text.empty()) {
        const std::size_t host = host_at(text, hosts);
        const std::string_view word = text.substr(0, host > 0 ? host : word_at(text).size());
        if (host > 0)
            result.add(kHost);
        else if (word.empty())
            result.add(text.front());
        else if (is_number(word, result.joined_to_number()))
            result.add_number();
        else
            result.add_word(word);
        text.remove_prefix(std::max<std::size_t>(word.size(), 1));
    }
    return result.take();
}

std::string failure_signature(const Failure& failure, std::vector<std::string> hosts) {
    if (failure.kind == Failure::Kind::node_lost || failure.kind == Failure::Kind::signalled) return {};
    hosts.push_back(failure.host);
    hosts = with_short_names(std::move(hosts));
    ComparedLines lines(hosts);
    lines.add_text(failure.message);
    lines.add_text(failure.error_message);
    for (const std::string& line : failure.last_lines) lines.add(line);
    return fmt::format("{} {} {} {}{}", static_cast<int>(failure.kind), failure.exit_code, failure.signal,
                       failure.accusation, lines.take());
}

}  // namespace job
}  // namespace ddprun
