#include "launcher/secret_text.hpp"

#include <algorithm>
#include <cctype>

#include "launcher/secret_name.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// What issues tokens begins them so; shorter texts, and those of words, are others that begin alike.
constexpr TextTable<23> kTokenBeginnings = {
    "ghp_", "gho_",     "ghu_",     "ghs_",  "ghr_",    "github_pat_", "glpat-", "hf_",
    "sk-",  "sk_live_", "rk_live_", "xoxb-", "xoxp-",   "xapp-",       "AKIA",   "ASIA",
    "AIza", "eyJ",      "npm_",     "pypi-", "dop_v1_", "ya29.",       "SG."};
constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kRandomPart = 12, kLongPart = 16;

// Nobody's password, and what follows the name of one in a sentence.
constexpr TextTable<32> kNoSecrets = {
    "none", "null",     "nil",      "true",    "false", "yes", "no",     "on",   "off",    "auto",  "any",
    "ok",   "required", "optional", "is",      "and",   "or",  "to",     "must", "not",    "needs", "has",
    "was",  "for",      "with",     "without", "token", "key", "tokens", "auth", "failed", "cannot"};
// Two words are the value then.
constexpr TextTable<6> kSchemes = {"BEARER", "BASIC", "TOKEN", "DIGEST", "APIKEY", "NEGOTIATE"};
// What computes a value in a line of Python begins so, as tracebacks show them.
constexpr TextTable<7> kCodeBeginnings = {"(", "<", "self.", "cls.", "os.", "args.", "config."};
// Options whose value is NAME:password; curl's and its like.
constexpr TextTable<4> kUserFlags = {"-u", "-U", "--user", "--proxy-user"};

constexpr std::string_view kAddressMark = "://";
// Ends of their schemes. Elsewhere a user alone may be a container's name, or a person's.
constexpr TextTable<3> kWeb = {"http", "https", "wss"};
constexpr std::string_view kPrivateKey = "-----BEGIN", kPrivateKeyEnd = "-----END";
// What is looked at of a value that may be a word of kNoSecrets, and of a user's name.
constexpr std::size_t kLongestWord = 64, kLongestUser = 256;

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }
bool is_quote(char letter) { return letter == '"' || letter == '\''; }
bool is_of_name(char letter) {
    return is_letter_or_digit(letter) || letter == '_' || letter == '-' || letter == '.';
}
constexpr std::string_view kOfIdentifiers = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
bool is_number(std::string_view text) { return text.find_first_not_of("0123456789") == text.npos; }

bool is_token(std::string_view word) {
    if (word.size() < kShortestToken ||
        !has_any(kTokenBeginnings, [word](std::string_view one) { return word.starts_with(one); }))
        return false;
    std::size_t size = 0, digits = 0;
    return has_any(word, [&](char letter) {
        size = is_letter_or_digit(letter) ? size + 1 : 0;
        digits = size == 0 ? 0 : digits + (is_number({&letter, 1}) ? 1 : 0);
        return size >= kLongPart || (size >= kRandomPart && digits > 0);
    });
}

// Also of one that has been cut within what stands for it.
bool is_masked(std::string_view value) {
    const auto same = std::mismatch(kNotShown.begin(), kNotShown.end(), value.begin(), value.end());
    return same.first == kNotShown.end() || std::string_view(same.second, value.end()).starts_with("...");
}

// NAME=value, name: value, --name value, and that in two arguments.
enum class Form { equals, colon, flag, argument };

struct Naming {
    std::string_view name;
    Form form = Form::argument;
    char before = ' ';         // the name
    bool is_quoted = false;    // the name
    bool is_spaced = false;    // a blank is before the value
    bool is_compared = false;  // == is

    bool is_flag() const { return name.starts_with('-'); }
    bool is_in_query() const { return before == '?' || before == '&'; }
};

// `value` is its first word, with the sign behind.
bool names_secret(const Naming& naming, std::string_view value) {
    std::string_view name = naming.name;
    // Else a line of a file would be a value: token.py:33.
    if (naming.form == Form::colon) name.remove_prefix(name.rfind('.') + 1);
    const std::string plain = plain_name(name);
    if (plain == "PWD") return naming.before == ';' || value.find_first_of("/~.$") != 0;
    if (plain == "KEY") return naming.is_flag() || naming.is_in_query() || name == plain;
    if (plain == "SIG") return naming.is_in_query();
    // argparse says "argument NAME: expected one argument".
    if (naming.form == Form::colon && naming.is_flag() && naming.is_spaced) return false;
    // An image's name has a colon, and so has the launcher's own complaint about its option.
    if (plain == "AUTH" && naming.form == Form::colon) return naming.is_spaced || naming.is_quoted;
    if (plain == "AUTH" && naming.form == Form::flag)
        return !value.ends_with(": ") || !std::all_of(value.begin(), value.end() - 2, is_letter_or_digit);
    if (plain == "AUTH") return true;
    return is_secret_name(name) || (plain == "BEARER" && naming.form == Form::flag);
}

// Says whether the value of NAME=value, up to the line's end, is no text but computes one.
bool is_code(const Naming& naming, std::string_view value) {
    if (naming.form != Form::equals || naming.is_in_query()) return false;
    const bool is_known =
        has_any(kCodeBeginnings, [value](std::string_view one) { return value.starts_with(one); });
    const auto end = std::min(value.find_first_not_of(kOfIdentifiers), value.size() - 1);
    const bool is_call =
        naming.is_spaced && end > 0 && value[end] == '(' && value.find(')', end) != value.npos;
    return naming.is_compared || is_known || is_call;
}

// A shell says "HF_TOKEN: unbound variable", a parser "unexpected token: end of file".
bool begins_sentence(const Naming& naming, std::string_view word, std::string_view more) {
    const auto is_lower = [](char letter) { return std::islower(static_cast<unsigned char>(letter)) != 0; };
    const bool is_noun =
        naming.before == ' ' && std::all_of(naming.name.begin(), naming.name.end(), is_lower);
    const bool is_variable = std::none_of(naming.name.begin(), naming.name.end(), is_lower);
    return (is_noun || is_variable) && naming.is_spaced && !naming.is_quoted && more.starts_with(' ') &&
           more.find_first_not_of(" \t\r") != more.npos && std::all_of(word.begin(), word.end(), is_lower);
}

// Where the password begins in user:password; npos: the text begins with none.
std::size_t begin_of_password(std::string_view text) {
    const auto colon = text.substr(0, kLongestUser).find(':');
    if (colon == text.npos || colon + 1 == text.size()) return text.npos;
    const std::string_view user = text.substr(0, colon), behind = text.substr(colon + 1);
    const bool is_user = std::all_of(user.begin(), user.end(), [](char letter) {
        return is_of_name(letter) || letter == '@' || letter == '%' || letter == '\\';
    });
    // A number is a user's for docker, whose other number is a group's.
    if (!is_user || is_number(user) || behind.starts_with("//") || is_masked(behind)) return text.npos;
    return masked_text(user) == user ? colon + 1 : 0;
}

// Where in `text`, whose beginning is the value, the secret begins; npos: there is none.
std::size_t begin_of_secret(const Naming& naming, std::string_view text) {
    const std::string_view near = text.substr(0, kLongestWord);
    const std::string_view word = near.substr(0, near.find_first_of(" \t\r\n,;&\"'`)]}\\"));
    if (is_among(kUserFlags, naming.name)) return begin_of_password(text);
    if (is_masked(text)) return text.npos;
    const bool is_word = naming.form != Form::argument || word.size() == text.size();
    std::string lower(word);
    for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const bool is_scheme = naming.form != Form::flag && is_among(kSchemes, plain_name(word));
    if (is_word && !is_scheme && is_among(kNoSecrets, lower)) return text.npos;
    // Of language models: a token's number, a rate.
    const bool is_told = naming.form == Form::equals || naming.form == Form::colon;
    const bool is_of_program = is_told && !naming.is_in_query() && !naming.is_flag() &&
                               std::islower(static_cast<unsigned char>(naming.name.front())) != 0;
    if (is_of_program && word.find_first_not_of("0123456789.") == word.npos &&
        plain_name(naming.name).find("TOKEN") != std::string::npos)
        return text.npos;
    const bool is_sentence =
        naming.form == Form::colon && begins_sentence(naming, word, text.substr(word.size()));
    return is_sentence || !names_secret(naming, near.substr(0, word.size() + 1)) ? text.npos : 0;
}

// What of an address behind :// is secret: the password, or a token in place of the user.
struct Part {
    std::size_t begin = std::string_view::npos, end = std::string_view::npos;

    bool is_any() const { return begin < end; }
};

Part secret_of_address(std::string_view address, bool is_web) {
    const auto slash = std::min(address.find_first_of("/?#"), address.size());
    auto sign = address.substr(0, slash).rfind('@');
    const auto colon = address.substr(0, std::min(sign, slash)).find(':');
    // A token needs no user: GitHub takes it for one.
    const auto is_alone = [&](std::string_view password) {
        return is_web && (password.empty() || password == "x-oauth-basic");
    };
    if (colon == address.npos)
        return sign != address.npos && is_alone("") && address.substr(0, sign) != "git" ? Part{0, sign}
                                                                                        : Part{};
    const std::string_view port = address.substr(colon + 1, slash - colon - 1);
    // A password that is not encoded may have a slash in it.
    if (sign == address.npos && !is_number(port)) sign = address.rfind('@');
    if (sign == address.npos || sign < colon) return {};
    const std::string_view user = address.substr(0, colon + 1);
    const bool hides_user = is_alone(address.substr(colon + 1, sign - colon - 1)) ||
                            masked_text(user) != user || user.find('@') != user.npos;
    return {hides_user ? 0 : colon + 1, sign};
}

// Copies a text without its secrets, from its beginning to its end: nothing is looked at more than a few
// times.
class Masking {
  public:
    // An argument is a whole word of a command: where its value begins nothing says where it ends.
    Masking(std::string_view text, bool is_argument) : text_(text), is_argument_(is_argument) {}

    std::string masked() {
        while (at_ < text_.size()) {
            const std::string_view rest = text_.substr(at_);
            if (rest.starts_with(kNotShown)) {
                keep(kNotShown.size());
            } else if (is_of_name(rest.front())) {
                pass_name();
            } else if (rest.starts_with(kAddressMark)) {
                pass_address();
            } else {
                keep(1);
            }
        }
        return std::move(masked_);
    }

  private:
    char char_at(std::size_t at) const { return at < text_.size() ? text_[at] : '\n'; }

    std::size_t without_blanks(std::size_t at) const {
        for (;; ++at) {
            if (char_at(at) == '\\' && at + 1 < text_.size() && text_[at + 1] == '\n')
                ++at;
            else if (!is_blank(char_at(at)))
                return at;
        }
    }

    // Behind a quote that begins there, also an escaped one; `at` itself: there is none.
    std::size_t behind_quote(std::size_t at) const {
        std::size_t quote = at;
        while (char_at(quote) == '\\') ++quote;
        return is_quote(char_at(quote)) ? quote + 1 : at;
    }

    std::size_t line_end(std::size_t at) {
        if (line_end_ < at) line_end_ = std::min(text_.find('\n', at), text_.size());
        return line_end_;
    }

    bool is_open(char quote) const { return quote == '"' ? in_double_ : quote == '\'' && in_single_; }

    void keep(std::size_t size) {
        for (; size > 0; --size, ++at_) {
            const char letter = text_[at_];
            const char before = at_ == 0 ? ' ' : text_[at_ - 1];
            const bool is_apostrophe =
                !in_single_ && is_letter_or_digit(before) && is_letter_or_digit(char_at(at_ + 1));
            if (letter == '"' && before != '\\') in_double_ = !in_double_;
            if (letter == '\'' && before != '\\' && !is_apostrophe) in_single_ = !in_single_;
            if (letter == '\n' && before != '\\') in_double_ = in_single_ = false;
            has_blank_ = has_blank_ || is_blank(letter) || letter == '\n';
            masked_ += letter;
        }
    }

    void mask(const Part& part) {
        keep(part.begin - at_);
        masked_ += kNotShown;
        at_ = part.end;
    }

    void pass_name() {
        auto end = at_;
        while (end < text_.size() && is_of_name(text_[end])) ++end;
        const std::string_view word = text_.substr(at_, end - at_);
        if (is_token(word)) return mask({at_, end_of_word(end, false)});
        const std::string_view near = text_.substr(end, kLongestWord);
        const std::string_view title =
            near.substr(0, near.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 "));
        if (word == kPrivateKey && title.ends_with("PRIVATE KEY")) {
            const auto last = text_.find(kPrivateKeyEnd, end);
            const auto behind = text_.find("-----", std::min(last, text_.size() - 1) + kPrivateKeyEnd.size());
            return mask({at_, behind == text_.npos ? text_.size() : behind + 5});
        }
        if (const Part value = value_behind(end); value.is_any()) return mask(value);
        if (at_ < end) keep(end - at_);
    }

    void pass_address() {
        const bool is_web =
            has_any(kWeb, [this](std::string_view scheme) { return masked_.ends_with(scheme); });
        keep(kAddressMark.size());
        const std::string_view rest = text_.substr(at_);
        std::size_t end = 0;
        while (end < rest.size() && std::string_view("\"'<>|, \t\r\n").find(rest[end]) == rest.npos &&
               !rest.substr(end).starts_with(kAddressMark))
            ++end;
        const Part part = secret_of_address(rest.substr(0, end), is_web);
        if (part.is_any()) mask({at_ + part.begin, at_ + part.end});
    }

    // The secret that the name from at_ to `end` names.
    Part value_behind(std::size_t end) {
        Naming naming{.name = text_.substr(at_, end - at_), .before = at_ == 0 ? ' ' : text_[at_ - 1]};
        if (naming.name.size() > kLongestName) naming.name.remove_prefix(naming.name.size() - kLongestName);
        const auto quote = behind_quote(end);
        naming.is_quoted = quote > end && naming.before == text_[quote - 1];
        auto begin = naming.is_quoted ? quote : end;
        const bool is_attached = naming.name.starts_with("-u") && naming.name.size() > 2 &&
                                 !is_letter_or_digit(naming.before) && char_at(end) == ':';
        if (is_attached) {
            naming.name = "-u";
            return part_of(naming, at_ + 2);
        }
        if (naming.is_quoted) keep(quote - at_);
        if (naming.is_quoted && char_at(begin) == ']') ++begin;
        const auto sign = without_blanks(begin);
        if (naming.before == '<' && char_at(end) == '>') {
            naming.form = Form::equals;
            begin = end + 1;
        } else if (char_at(sign) == '=' || (char_at(sign) == ':' && char_at(sign + 1) == '=')) {
            naming.form = Form::equals;
            naming.is_compared = char_at(sign) == '=' && char_at(sign + 1) == '=';
            begin = std::min(text_.find_first_not_of(":=>", sign), text_.size());
        } else if (char_at(sign) == ':' && (sign == begin || naming.is_quoted) && char_at(sign + 1) != ':' &&
                   !text_.substr(sign).starts_with(kAddressMark)) {
            naming.form = Form::colon;
            begin = sign + 1;
        } else if (sign > begin && !naming.is_quoted) {
            naming.form = Form::flag;
        } else {
            return {};
        }
        const auto value = without_blanks(begin);
        naming.is_spaced = value > begin;
        const bool is_next_flag = char_at(value) == '-';
        if (naming.form == Form::flag && !naming.is_flag() && plain_name(naming.name) != "BEARER") return {};
        if (is_next_flag && (naming.form == Form::flag || (naming.is_spaced && naming.is_flag()))) return {};
        return part_of(naming, value);
    }

    // The secret of the value that begins there.
    Part part_of(const Naming& naming, std::size_t value) {
        const auto content = behind_quote(value);
        const auto eol = line_end(value);
        const bool is_empty = content > value && char_at(content) == text_[content - 1];
        if (content >= eol || (is_empty && !is_letter_or_digit(char_at(content + 1)))) return {};
        // That is known by itself, and has several lines.
        if (text_.substr(content).starts_with(kPrivateKey)) return {};
        if (is_open(text_[value]) && !is_letter_or_digit(text_[content])) return {};
        if (content == value && is_code(naming, text_.substr(value, eol - value))) return {};
        const auto secret = begin_of_secret(naming, text_.substr(content, eol - content));
        if (secret == text_.npos) return {};
        if (is_member(naming, value)) return {value, std::min(text_.find('<', value), eol)};
        const bool is_headers = naming.form != Form::flag && is_of_headers(naming.name);
        if (is_argument_ && !has_blank_ && !naming.is_quoted && naming.form != Form::flag) {
            const auto end = naming.is_in_query() ? text_.find_first_of("&#", value) : text_.npos;
            return {value + (secret > 0 ? content - value + secret : 0), std::min(end, text_.size())};
        }
        if (content > value) return quoted_part(value, content, secret);
        if (is_headers) return {value, end_of_line(value)};
        if (const auto end = end_of_brackets(value); end > value) return {value, end};
        auto end = end_of_word(value, naming.is_in_query());
        const bool is_scheme =
            is_among(kSchemes, plain_name(text_.substr(value, std::min(end - value, kLongestWord))));
        if (is_scheme) end = end_of_word(without_blanks(end), false);
        return {value + secret, end};
    }

    // Of XML: <name>value</name>.
    bool is_member(const Naming& naming, std::size_t value) const {
        return naming.before == '<' && text_[value - 1] == '>';
    }

    static bool is_of_headers(std::string_view name) {
        const std::string plain = plain_name(name);
        return plain.ends_with("AUTHORIZATION") || plain.ends_with("COOKIE");
    }

    // `content` is behind the quote that `value` begins with.
    Part quoted_part(std::size_t value, std::size_t content, std::size_t secret) {
        const std::string_view quote = text_.substr(value, content - value);
        const auto eol = line_end(value);
        auto close = content;
        while (close < eol && !text_.substr(close).starts_with(quote))
            close += quote.size() == 1 && text_[close] == '\\' ? 2 : 1;
        if (close >= eol) return {content + secret, eol};
        const char next = char_at(close + quote.size());
        const bool goes_on =
            is_letter_or_digit(next) || is_quote(next) || (next == '\\' && quote.size() == 1);
        if (!goes_on || is_open(next)) return {content + secret, close};
        return {secret > 0 ? content + secret : value, end_of_word(close + quote.size(), false)};
    }

    // To the end of the line or of the quotes that the name is in.
    std::size_t end_of_line(std::size_t at) {
        const auto eol = line_end(at);
        while (at < eol && !is_open(text_[at])) ++at;
        return at;
    }

    std::size_t end_of_brackets(std::size_t at) {
        constexpr std::string_view kOpening = "[{", kClosing = "]}";
        if (kOpening.find(text_[at]) == text_.npos) return at;
        int depth = 0;
        for (const auto eol = line_end(at); at < eol; ++at) {
            if (kOpening.find(text_[at]) != text_.npos) ++depth;
            if (kClosing.find(text_[at]) != text_.npos && --depth == 0) return at + 1;
        }
        return at;
    }

    // As a shell reads it: quotes within belong to it.
    std::size_t end_of_word(std::size_t at, bool is_in_query) {
        const auto eol = line_end(at);
        while (at < eol && !is_blank(text_[at]) && !is_open(text_[at]) &&
               !(is_in_query && (text_[at] == '&' || text_[at] == '#'))) {
            if (text_.substr(at).starts_with(kNotShown)) at += kNotShown.size() - 2;
            if (is_quote(text_[at])) at = std::min(text_.substr(0, eol).find(text_[at], at + 1), eol - 1);
            at += text_[at] == '\\' && at + 1 < eol ? 2 : 1;
        }
        return at;
    }

    std::string_view text_;
    std::string masked_;
    bool is_argument_;
    bool has_blank_ = false;
    bool in_double_ = false, in_single_ = false;
    std::size_t at_ = 0;
    std::size_t line_end_ = 0;
};

// Variables are given so. Where an equals sign is missing nothing else of the value but the name is known to
// be none.
std::size_t end_of_variable(std::string_view option, std::string_view value) {
    if (option != "--env" && option != "--env-rank") return value.npos;
    const std::string_view local = value.starts_with("local=") ? "local=" : "";
    const auto colon = value.find_first_not_of("0123456789,-*", local.size());
    const bool has_ranks = option == "--env-rank" && colon < value.size() && value[colon] == ':';
    const std::size_t name = has_ranks ? colon + 1 : 0;
    const auto end_of = [&](const auto& is_of) {
        const auto from = value.begin() + static_cast<std::ptrdiff_t>(name);
        return static_cast<std::size_t>(std::find_if_not(from, value.end(), is_of) - value.begin());
    };
    const auto equals = end_of(is_of_name);
    if (equals > name && equals < value.size() && value[equals] == '=') return value.npos;
    const auto end = end_of([](char letter) { return is_letter_or_digit(letter) || letter == '_'; });
    return end == value.size() || is_masked(value.substr(end)) ? value.npos : end;
}

// True for a text in which nothing could be masked; most are, and lines of output may be many.
bool is_plain(std::string_view text) {
    return text.find_first_of("=:-<") == text.npos && text.find("earer ") == text.npos &&
           !has_any(kTokenBeginnings, [text](std::string_view one) { return text.find(one) != text.npos; });
}

}  // namespace

std::string masked_text(std::string_view text) {
    return is_plain(text) ? std::string(text) : Masking(text, false).masked();
}

std::vector<std::string> masked_words(std::vector<std::string> words) {
    std::string before;
    for (std::string& word : words) {
        const bool is_value = before.size() > 1 && before.front() == '-' &&
                              std::all_of(before.begin(), before.end(), is_of_name) &&
                              (!word.starts_with('-') || word.starts_with(kPrivateKey));
        const auto secret = is_value ? begin_of_secret({.name = before}, word) : word.npos;
        const auto end = std::min(secret, end_of_variable(before, word));
        const std::string head = word.substr(0, end);
        before = is_plain(head) ? head : Masking(head, true).masked();
        if (end != word.npos && !before.ends_with(kNotShown)) before += kNotShown;
        word = before;
    }
    return words;
}

}  // namespace launch
}  // namespace ddprun
