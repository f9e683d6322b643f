#include "rendezvous/worker/accusation.hpp"

#include <fmt/core.h>

#include <charconv>
#include <utility>

namespace ddprun {
inline namespace base {
namespace {

constexpr std::string_view kRank = "rank ";
constexpr std::string_view kAfter = "after ";
constexpr std::string_view kAsCall = " as call ";
constexpr std::string_view kFinalize = "finalize";
constexpr std::string_view kOperationLetters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kDigits = "0123456789";

// They are in the order of Charge.
constexpr std::string_view kPhrases[] = {"does not answer", "has called nothing yet", "is at", "died", "left",
                                         "aborted"};

// Finds where the call begins that `text` ends with; npos without one.
std::size_t start_of_call(std::string_view text) {
    const auto number = text.find_last_not_of(kDigits) + 1;
    if (number < text.size() && text.substr(0, number).ends_with(kAsCall))
        text = text.substr(0, number - kAsCall.size());
    const auto open = text.rfind('(');
    std::size_t name_end = text.size();
    if (text.ends_with(')') && open != std::string_view::npos) {
        name_end = open;
    } else if (!text.ends_with(kFinalize)) {
        return std::string_view::npos;
    }
    const auto start = text.find_last_not_of(kOperationLetters, name_end - 1) + 1;
    return start < name_end ? start : std::string_view::npos;
}

// Returns the text without `Timed out after 5 s (operation_timeout) ` in front.
std::string_view without_wait(std::string_view text) {
    if (text.starts_with(kTimedOut)) text.remove_prefix(kTimedOut.size());
    if (!text.starts_with(kAfter)) return text;
    const auto end = text.find(") ");
    return end == std::string_view::npos ? text : text.substr(end + 2);
}

// True if `text` goes on with the description of a collective, up to the next rank.
bool is_collective_next(std::string_view text) {
    return text.substr(0, text.find(", rank ")).find(kAsCall) != std::string_view::npos;
}

// Takes `rank 2 does not answer` away from the front of the text.
std::optional<std::pair<int, Charge>> take_accused(std::string_view& text) {
    if (!text.starts_with(kRank)) return std::nullopt;
    int rank = 0;
    const char* begin = text.data() + kRank.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), rank);
    if (error != std::errc() || rank < 0) return std::nullopt;
    const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
    for (int charge = 0; const std::string_view phrase : kPhrases) {
        const auto found = static_cast<Charge>(charge++);
        if (!rest.starts_with(' ') || !rest.substr(1).starts_with(phrase)) continue;
        text = rest.substr(1 + phrase.size());
        if (text.empty() || std::string_view(" ,:;").find(text.front()) != std::string_view::npos)
            return std::pair(rank, found);
    }
    return std::nullopt;
}

std::optional<std::pair<int, Charge>> find_accused(std::string_view text, bool by_collective) {
    auto first = take_accused(text);
    if (!first || is_about_end(first->second)) return first;
    if (text.find("ranks ") != std::string_view::npos) return std::nullopt;
    const bool may_wait = !by_collective || !is_collective_next(text);
    const bool is_victim = first->second == Charge::is_elsewhere && may_wait;
    for (auto current = first; current; current = take_accused(text)) {
        if (current->second == Charge::does_not_answer) return current;
        const auto next = text.find(", rank ");
        if (next == std::string_view::npos) break;
        text.remove_prefix(next + 2);
    }
    return is_victim ? std::nullopt : first;
}

}  // namespace

std::string_view phrase_of(Charge charge) { return kPhrases[static_cast<std::size_t>(charge)]; }

std::string_view report_of(Charge charge) {
    return charge == Charge::is_elsewhere ? "has not come" : phrase_of(charge);
}

std::string accuse(int rank, Charge charge) { return fmt::format("{}{} {}", kRank, rank, phrase_of(charge)); }

bool is_about_end(Charge charge) { return charge >= Charge::died; }

std::optional<Accusation> find_accusation(std::string_view line) {
    for (auto colon = line.find(": "); colon != std::string_view::npos; colon = line.find(": ", colon + 1)) {
        const auto start = start_of_call(line.substr(0, colon));
        if (start == std::string_view::npos || line.substr(0, start).ends_with(kWaitsIn)) continue;
        const bool by_collective = line.substr(start, colon - start).find(kAsCall) != std::string_view::npos;
        if (const auto accused = find_accused(without_wait(line.substr(colon + 2)), by_collective))
            return Accusation{accused->second, accused->first, std::string(line.substr(start))};
    }
    return std::nullopt;
}

}  // namespace base
}  // namespace ddprun
