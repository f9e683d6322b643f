#include "launcher/plan/shell_words.hpp"

#include <optional>

namespace ddprun {
namespace {

constexpr std::string_view kBlanks = " \t\n";
constexpr std::string_view kEscapedInQuotes = "\\\"$`\n";

class Splitter {
  public:
    explicit Splitter(std::string_view text) : text_(text) {}

    std::variant<std::vector<std::string>, std::string> split() {
        while (at_ < text_.size() && wrong_.empty()) step(text_[at_++]);
        if (!wrong_.empty()) return wrong_;
        end_word();
        return words_;
    }

  private:
    void step(char c) {
        if (kBlanks.find(c) != std::string_view::npos) {
            end_word();
        } else if (c == '\'') {
            single_quotes();
        } else if (c == '"') {
            double_quotes();
        } else if (c == '\\') {
            backslash();
        } else {
            word() += c;
        }
    }

    void single_quotes() {
        const auto end = text_.find('\'', at_);
        if (end == std::string_view::npos) return not_closed('\'');
        word() += text_.substr(at_, end - at_);
        at_ = end + 1;
    }

    void double_quotes() {
        std::string& inside = word();
        for (; at_ < text_.size(); ++at_) {
            if (text_[at_] == '"') {
                ++at_;
                return;
            }
            const bool escapes = text_[at_] == '\\' && at_ + 1 < text_.size() &&
                                 kEscapedInQuotes.find(text_[at_ + 1]) != std::string_view::npos;
            if (escapes) ++at_;
            if (!escapes || text_[at_] != '\n') inside += text_[at_];
        }
        not_closed('"');
    }

    void backslash() {
        if (at_ == text_.size()) {
            wrong_ = "nothing follows the backslash at its end";
        } else if (text_[at_] != '\n') {
            word() += text_[at_++];
        } else {
            ++at_;
        }
    }

    void not_closed(char quote) { wrong_ = std::string("the quote ") + quote + " is not closed"; }

    std::string& word() { return word_ ? *word_ : word_.emplace(); }

    void end_word() {
        if (word_) words_.push_back(std::move(*word_));
        word_.reset();
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::optional<std::string> word_;  // nothing between words, while "" is an empty one
    std::vector<std::string> words_;
    std::string wrong_;
};

}  // namespace

std::variant<std::vector<std::string>, std::string> split_shell_words(std::string_view text) {
    return Splitter(text).split();
}

}  // namespace ddprun
