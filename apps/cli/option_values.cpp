#include "apps/cli/option_values.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "launcher/output/output_plan.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
namespace {

std::optional<int> whole_value(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

std::string any_text(const std::string& text) { return text; }

Grammar<int> number(int low, int high) {
    return [low, high](const std::string& text) {
        const auto value = whole_value(text);
        if (!value || *value < low || *value > high) {
            throw BadValue("must be a whole number from " + std::to_string(low) + " to " +
                           std::to_string(high));
        }
        return *value;
    };
}

Grammar<std::uint64_t> byte_size(std::uint64_t low) {
    return [low](const std::string& text) {
        const auto size = parse_size(text);
        if (!size || *size < low)
            throw BadValue("must be a size like 8, 32K, 1M or 2G, at least " + std::to_string(low));
        return *size;
    };
}

std::chrono::milliseconds duration_of(const std::string& text) {
    return parsed_by(parse_duration, "must be a duration like 60s")(text);
}

int signal_of(const std::string& text) { return parsed_by(parse_signal, "no such signal")(text); }

RankSet ranks_of(const std::string& text) {
    auto ranks = parse_rank_set(text);
    if (const auto* why = std::get_if<std::string>(&ranks)) throw BadValue(*why);
    return std::get<RankSet>(std::move(ranks));
}

bool yes_or_no(const std::string& text) {
    for (const char* yes : {"true", "on", "yes"}) {
        if (text == yes) return true;
    }
    for (const char* no : {"false", "off", "no"}) {
        if (text == no) return false;
    }
    return parsed_by(whole_value, "must be 1 or 0")(text) != 0;
}

std::vector<std::string> comma_separated(const std::string& text) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    for (std::size_t comma = 0; comma != std::string::npos; begin = comma + 1) {
        comma = text.find(',', begin);
        const std::string part = text.substr(begin, comma - begin);
        const auto first = part.find_first_not_of(" \t");
        parts.push_back(first == part.npos ? ""
                                           : part.substr(first, part.find_last_not_of(" \t") - first + 1));
    }
    return parts;
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::optional<std::string> best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
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
            best = candidate;
        }
    }
    return best;
}

std::string alternatives(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    return text;
}

}  // namespace ddprun
