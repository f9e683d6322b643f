#include "rendezvous/job/failure_signature.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace job {
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
