#include "apps/cli/option_values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "launcher/output/output_plan.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {
std::string any_text(const std::string& text) { return text; }

std::string number_text(const std::string& text) {
    constexpr const char* kWhite = " \t\n\v\f\r";
    const auto first = std::min(text.find_first_not_of(kWhite), text.size());
    const std::string bare = text.substr(first, text.find_last_not_of(kWhite) + 1 - first);
    const bool is_plus = bare.size() > 1 && bare[0] == '+' && bare[1] >= '0' && bare[1] <= '9';
    return is_plus ? bare.substr(1) : bare;
}

std::function<void(const std::string&)> of_number(std::function<void(const std::string&)> set) {
    return [set = std::move(set)](const std::string& text) { set(number_text(text)); };
}

Grammar<int> number(int low, int high) {
    return [low, high](const std::string& text) {
        const auto value = whole_number<int>(number_text(text), low, high);
        if (!value) throw BadValue(fmt::format("must be a whole number from {} to {}", low, high));
        return *value;
    };
}

std::string decimal_text(const std::string& text) {
    const std::string decimal = number_text(text);
    double value = 0;
    const auto [end, error] = std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
    const bool is_number = error == std::errc() && end == decimal.data() + decimal.size();
    if (!is_number || !std::isfinite(value) || value < 0)
        throw BadValue("must be a number of seconds like 0.1, not negative");
    return decimal;
}

Grammar<std::uint64_t> byte_size(std::uint64_t low) {
    return [low](const std::string& text) {
        const auto size = parse_size(number_text(text));
        if (!size || *size < low)
            throw BadValue(fmt::format("must be a size like 8, 32K, 1M or 2G, at least {}", low));
        return *size;
    };
}

std::chrono::milliseconds duration_of(const std::string& text) {
    return parsed_by(parse_duration, "must be a duration like 60s")(number_text(text));
}

int signal_of(const std::string& text) { return parsed_by(parse_signal, "no such signal")(text); }

bool yes_or_no(const std::string& text) {
    const std::string word = number_text(text);
    for (const char* yes : {"true", "on", "yes"}) {
        if (word == yes) return true;
    }
    for (const char* no : {"false", "off", "no"}) {
        if (word == no) return false;
    }
    const auto number = whole_number<int>(word);
    if (!number) throw BadValue("must be 1 or 0");
    return *number != 0;
}

std::string at_home(const std::string& path, const std::string& home) {
    std::string text = path;
    for (std::size_t at = 0; (at = text.find('~', at)) != text.npos; ++at) {
        const bool is_whole = at + 1 == text.size() || text[at + 1] == '/';
        if (at > 0 && (!is_whole || (text[at - 1] != '=' && text[at - 1] != ':'))) continue;
        if (!is_whole)
            throw BadValue(
                "~ stands for your own home only; write the folder out, or ./~ for a file that is called so");
        if (home.empty()) throw BadValue("~ stands for HOME, which is not set");
        text.replace(at, 1, home);
        at += home.size();
    }
    return text;
}

std::vector<std::string> comma_separated(const std::string& text) {
    std::vector<std::string> parts;
    for (const std::string_view part : split_at(text, ',')) {
        const auto first = std::min(part.find_first_not_of(" \t"), part.size());
        parts.emplace_back(part.substr(first, part.find_last_not_of(" \t") - first + 1));
    }
    return parts;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string otherwise) {
    // The dashes in front are the same in all.
    const std::size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
    std::size_t best_distance = std::max<std::size_t>(1, letters / 3) + 1;
    for (const std::string& candidate : candidates) {
        // Levenshtein distance, one row at a time.
        std::vector<std::size_t> row(candidate.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 1; i <= word.size(); ++i) {
            std::size_t diagonal = std::exchange(row[0], i);
            for (std::size_t j = 1; j <= candidate.size(); ++j) {
                const std::size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
                diagonal = row[j];
                row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
            }
        }
        if (row.back() < best_distance) {
            best_distance = row.back();
            otherwise = fmt::format("; did you mean {}?", candidate);
        }
    }
    return otherwise;
}

std::string alternatives(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    return text;
}

}  // namespace app
}  // namespace ddprun
