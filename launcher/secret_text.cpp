#include "launcher/secret_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "rendezvous/system/split.hpp"

namespace ddprun::inline launch {
namespace {

// Wherever they stand in a name. Open MPI's key of a job's transports goes by the last of them.
constexpr std::array<std::string_view, 14> kSecretParts = {
    "SECRET", "TOKEN",         "PASSWORD",     "PASSWD",       "PASSPHRASE",     "PASSCODE", "CREDENTIAL",
    "JWT",    "AUTHORIZATION", "PRECONDITION", "DATABASE_URL", "CONNECTION_STR", "WEBHOOK",  "KEY"};

// Whole words of a name, which mean something else within another word; PWD alone is a folder, and AUTH alone a choice.
constexpr std::array<std::string_view, 9> kSecretWords = {"PASS", "PW",  "CREDS",  "CRED",     "DSN",
                                                          "SAS",  "PAT", "COOKIE", "SIGNATURE"};
constexpr std::array<std::string_view, 2> kSecretBesideOthers = {"PWD", "AUTH"};
// Beginnings of words, as in REDIS_URL: addresses that usually have the password within.
constexpr std::array<std::string_view, 6> kServices = {"REDIS", "MONGO",  "POSTGRES",
                                                       "MYSQL", "BROKER", "AMQP"};

constexpr std::array<std::string_view, 3> kPlaces = {"FILE", "PATH", "DIR"};

// InfiniBand's partitions have keys, which are numbers that everybody may know; what cuts a text into tokens is no secret.
constexpr std::array<std::string_view, 4> kHarmlessParts = {"_PKEY", "TOKENIZER", "MAX_TOKENS", "NUM_TOKENS"};

// What issues tokens begins them so; shorter texts are words that begin alike.
constexpr std::array<std::string_view, 8> kTokenBeginnings = {"ghp_", "github_pat_", "glpat-", "hf_",
                                                              "sk-",  "xoxb-",       "AKIA",   "eyJ"};
constexpr std::size_t kShortestToken = 20;

constexpr std::string_view kAddressMark = "://";
// A longer text is no name.
constexpr std::size_t kLongestName = 199;

template <class List>
bool is_among(const List& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

// In capitals, with _ between the words.
std::string plain_name(std::string_view name) {
    std::string plain(name.substr(std::min(name.find_first_not_of('-'), name.size())));
    for (char& letter : plain) {
        const auto byte = static_cast<unsigned char>(letter);
        letter = std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
    }
    return plain;
}

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= kLongestName &&
           std::all_of(text.begin(), text.end(), [](unsigned char letter) {
               return std::isalnum(letter) != 0 || letter == '_' || letter == '-' || letter == '.';
           });
}

// Where the value of a secret name begins, in NAME=value, --env=NAME=value, RANKS:NAME=value, a=b;NAME=value or Name:value; npos:
// there is none.
std::size_t begin_of_secret(std::string_view text) {
    const auto colon = text.find(':');
    const bool has_colon = colon != text.npos && !text.substr(colon).starts_with("://");
    const auto first_equals = text.starts_with('-') ? text.find('=') : text.npos;
    std::vector<std::size_t> begins{0};
    if (has_colon) begins.push_back(colon + 1);
    if (first_equals != text.npos) begins.push_back(first_equals + 1);
    for (auto at = text.find_first_of(";&"); at != text.npos; at = text.find_first_of(";&", at + 1))
        begins.push_back(at + 1);
    for (const std::size_t begin : begins) {
        const std::string_view near = text.substr(begin, kLongestName + 1);
        const auto equals = near.find('=');
        if (equals == near.npos) continue;
        const std::string_view name = near.substr(0, equals);
        if (is_name(name) && is_secret_name(name)) return begin + equals + 1;
    }
    if (!has_colon) return text.npos;
    const std::string_view head = text.substr(0, colon);
    return is_name(head) && is_secret_name(head) ? colon + 1 : text.npos;
}

bool is_flag_of_secret(std::string_view word) {
    return word.size() > 2 && word.front() == '-' && is_name(word) && is_secret_name(word);
}

bool is_blank(char letter) { return std::isspace(static_cast<unsigned char>(letter)) != 0; }

// Masks a text without blanks.
std::string masked_token(std::string_view text) {
    if (const auto end = begin_of_secret(text); end < text.size())
        return std::string(text.substr(0, end)).append(kNotShown);
    const auto value = text.find('=') == text.npos ? 0 : text.find('=') + 1;
    const bool is_token =
        text.size() - value >= kShortestToken &&
        std::any_of(kTokenBeginnings.begin(), kTokenBeginnings.end(),
                    [&](std::string_view one) { return text.substr(value).starts_with(one); });
    if (is_token) return std::string(text.substr(0, value)).append(kNotShown);
    return masked_addresses(text);
}

// True for a text in which nothing could be masked; most are, and lines of output may be many.
bool is_plain(std::string_view text) {
    const bool has_sign = text.find_first_of("=:") != text.npos || text.find('-') != text.npos;
    return !has_sign && std::none_of(kTokenBeginnings.begin(), kTokenBeginnings.end(),
                                     [text](std::string_view one) { return text.find(one) != text.npos; });
}

}  // namespace

bool is_secret_name(std::string_view name) {
    std::string plain = plain_name(name);
    for (const std::string_view part : kHarmlessParts) {
        for (std::size_t at; (at = plain.find(part)) != plain.npos;) plain.erase(at, part.size());
    }
    const auto words = split_at(plain, '_');
    if (is_among(kPlaces, words.back())) return false;
    const bool has_part =
        std::any_of(kSecretParts.begin(), kSecretParts.end(),
                    [&plain](std::string_view part) { return plain.find(part) != plain.npos; });
    const bool is_address = words.size() > 1 && (words.back() == "URL" || words.back() == "URI");
    return has_part || plain.ends_with("PASS") ||
           std::any_of(words.begin(), words.end(), [&](std::string_view word) {
               const bool is_service =
                   std::any_of(kServices.begin(), kServices.end(),
                               [&](std::string_view one) { return word.starts_with(one); });
               return is_among(kSecretWords, word) ||
                      (plain != "OLDPWD" && words.size() > 1 && is_among(kSecretBesideOthers, word)) ||
                      (is_address && is_service);
           });
}

bool has_address(std::string_view text) { return text.find(kAddressMark) != text.npos; }

std::string masked_addresses(std::string_view text) {
    std::string masked;
    for (std::size_t at; (at = text.find(kAddressMark)) != text.npos;) {
        at += kAddressMark.size();
        masked += text.substr(0, at);
        text.remove_prefix(at);
        const auto end = std::min(text.find_first_of("\"'<>|, \t\r\n"), text.size());
        const std::string_view address = text.substr(0, end);
        const auto slash = std::min(address.find_first_of("/?#"), address.size());
        auto sign = address.substr(0, slash).rfind('@');
        const auto colon = address.substr(0, std::min(sign, slash)).find(':');
        if (colon == address.npos) continue;
        const std::string_view port = address.substr(colon + 1, slash - colon - 1);
        const bool is_port = port.find_first_not_of("0123456789") == port.npos;
        // A password that is not encoded may have a slash in it.
        if (sign == address.npos && !is_port) sign = address.rfind('@');
        if (sign == address.npos || sign < colon) continue;
        masked.append(address.substr(0, colon + 1)).append(kNotShown);
        text.remove_prefix(sign);
    }
    return masked.append(text);
}

std::string masked_text(std::string_view text) {
    if (is_plain(text)) return std::string(text);
    std::string masked;
    bool is_value = false;
    while (!text.empty()) {
        const auto blank = std::find_if(text.begin(), text.end(), is_blank);
        const std::string_view token = text.substr(0, static_cast<std::size_t>(blank - text.begin()));
        masked +=
            is_value && !token.empty() && token.front() != '-' ? std::string(kNotShown) : masked_token(token);
        if (!token.empty()) is_value = is_flag_of_secret(token);
        text.remove_prefix(token.size());
        const auto next = std::find_if_not(text.begin(), text.end(), is_blank);
        masked += text.substr(0, static_cast<std::size_t>(next - text.begin()));
        text.remove_prefix(static_cast<std::size_t>(next - text.begin()));
    }
    return masked;
}

std::vector<std::string> masked_words(std::vector<std::string> words) {
    bool is_value = false;
    for (std::string& word : words) {
        const bool is_next_value = is_flag_of_secret(word);
        const auto end = begin_of_secret(word);
        if (is_value && !word.starts_with('-')) {
            word = kNotShown;
        } else if (end < word.size()) {
            word = word.substr(0, end).append(kNotShown);
        } else {
            word = masked_text(word);
        }
        is_value = is_next_value;
    }
    return words;
}

}  // namespace ddprun::inline launch
